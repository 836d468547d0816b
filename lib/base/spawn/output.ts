/** Output of a program. `Deno.Command.output()` throws where the program is missing: its own `.catch` never sees that. */
export async function outputOf(command: Deno.Command): Promise<Deno.CommandOutput> {
  return await command.output();
}
