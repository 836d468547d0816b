/** A program whose Unix socket exists before it listens there, for as long as a test likes. */
const BIND_THEN_LISTEN = `
use Socket;
socket(my $socket, PF_UNIX, SOCK_STREAM, 0) or die $!;
bind($socket, sockaddr_un($ARGV[0])) or die $!;
syswrite STDOUT, "bound\\n";
<STDIN>;
listen($socket, 8) or die $!;
<STDIN>;
`;

export interface LateSocket extends AsyncDisposable {
  child: Deno.ChildProcess;
  /** makes it listen */
  listen(): Promise<void>;
}

/** Starts the program; returns when its socket exists. */
export async function bindLate(path: string): Promise<LateSocket> {
  const child = new Deno.Command("perl", {
    args: ["-e", BIND_THEN_LISTEN, path],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const [said, input] = [child.stdout.getReader(), child.stdin.getWriter()];
  await said.read();
  return {
    child,
    listen: () => input.write(new TextEncoder().encode("\n")),
    [Symbol.asyncDispose]: async () => {
      await input.close();
      await child.status;
      await said.cancel();
    },
  };
}
