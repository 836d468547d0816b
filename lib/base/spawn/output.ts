/** Output of a program. If it is missing, `Deno.Command.output()` throws at once, past its own `.catch`. */
export async function outputOf(command: Deno.Command): Promise<Deno.CommandOutput> {
  return await command.output();
}
