/** Output of a program. If that is missing, `Deno.Command.output()` throws at once, past its own `.catch`. */
export async function outputOf(command: Deno.Command): Promise<Deno.CommandOutput> {
  return await command.output();
}
