import { CommandLine } from "../part/command.tsx";
import { Notice } from "../part/notice.tsx";
import { text } from "../text/en.ts";

/** Page of a browser without a session. */
export function SignedOut() {
  return (
    <>
      <main class="alone">
        <h1>{text.signIn.title}</h1>
        <p>{text.signIn.how}</p>
        <CommandLine command={text.signIn.command} />
      </main>
      <Notice />
    </>
  );
}
