/**
 * Questions over a program's screen, on a real pseudo-terminal: the key, the answer,
 * and the program's screen again.
 */
import { assert, assertEquals } from "@std/assert";
import { runChild } from "../../helper/child.ts";
import { fromRoot } from "../../helper/repo.ts";
import { answerKeyAt, QuestionScreen } from "../../../cmd/sbx/vm/question_screen.ts";
import type { AskView } from "../../../lib/client/api/mod.ts";

/** A program in a VM that draws, and answers what it gets; its terminal is attached with a question. */
const PROGRAM = `
import { attach, Banner } from "${new URL("../../../cmd/sbx/vm/attach.ts", import.meta.url)}";
const asks = [{ ask_id: "ask-1" }, { ask_id: "ask-2" }];
const banner = new Banner();
banner.questions = {
  pending: () => asks,
  text: ({ ask_id }) => ask_id + " may it?\\x1b[2J",
  answer(ask, line) {
    asks.shift();
    socket.onmessage(text("<meanwhile>"));
    log.push(ask.ask_id + "=" + line);
    if (asks.length === 0) banner.set(undefined);
    return Promise.resolve();
  },
};
const log = [];
class Socket extends EventTarget {
  readyState = WebSocket.OPEN;
  send(data) {
    const sent = typeof data === "string" ? data : new TextDecoder().decode(data);
    log.push(sent.startsWith("{") ? "size" : sent);
    if (sent === "q") {
      this.readyState = WebSocket.CLOSED;
      this.onclose({ code: 1000, reason: "" });
    }
  }
  close() {}
}
const socket = new Socket();
const text = (words) => ({ data: new TextEncoder().encode(words).buffer });
setTimeout(() => {
  socket.onmessage(text("\\x1b[?1049h\\x1b[?2004h<program>\\x1b[8m\\x1b(0\\x1b[4h\\x1b[?7l\\x1b[?6h\\x1b[2;3r\\x1b[?2l"));
  banner.set("a question");
});
await attach(socket, "a terminal", false, { banner });
console.log("LOG " + JSON.stringify(log));
Deno.exit(0);
`;

/** Types into a pseudo-terminal, each text after the output that it waits for; prints all output. */
const TYPIST = `
import fcntl, json, os, pty, struct, sys, termios, time
steps = json.loads(sys.argv[1])
pid, fd = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    os.execv(sys.argv[2], sys.argv[2:])
seen, at = b"", 0
while True:
    try:
        chunk = os.read(fd, 65536)
    except OSError:
        break
    if not chunk:
        break
    seen += chunk
    while steps and steps[0][0].encode() in seen[at:]:
        at = seen.index(steps[0][0].encode(), at) + len(steps[0][0])
        time.sleep(steps[0][2])
        os.write(fd, steps[0][1].encode())
        steps.pop(0)
sys.stdout.buffer.write(seen)
os.waitpid(pid, 0)
`;

Deno.test("ctrl-^ opens the questions, and the program has its screen and its output again", async () => {
  const steps = [
    ["a question", "x\x1e", 0],
    ["back: ", "y\r", 0],
    ["ignored", "y\r", 0.8],
    ["ask-2 may it?", "s\r", 0.8],
    // Without a question the key is the program's.
    ["<meanwhile><meanwhile>", "\x1e", 0],
    ["", "q", 0.2],
  ];
  const { code, stdout, stderr } = await runChild("python3", {
    args: [
      "-c",
      TYPIST,
      JSON.stringify(steps),
      Deno.execPath(),
      "eval",
      "--quiet",
      "--config",
      fromRoot("deno.json"),
      PROGRAM,
    ],
  });
  const seen = new TextDecoder().decode(stdout);
  assertEquals(code, 0, new TextDecoder().decode(stderr) + seen);
  const log: string[] = JSON.parse(/LOG (.*)/.exec(seen)![1]);
  assertEquals(log.filter((each) => each !== "size"), ["x", "ask-1=y", "ask-2=s", "\x1e", "q"]);
  // The screen of the program is left and entered again, with its modes; then
  // its output, and a size to redraw.
  const opened = seen.indexOf("ask-1");
  assert(seen.lastIndexOf("\x1b[?1049l\x1b[?2004l\x1b[m\x1b[?1049h", opened) > 0, JSON.stringify(seen));
  // Whatever the program left: hidden characters, drawings, margins, a VT52, an open sequence.
  const own = "\x18\x1b<\x1b(B\x1b)B\x0f\x1b[4l\x1b[?7h\x1b[m\x1b[?69l\x1b[?6l\x1b[r";
  assert(seen.includes(`${own}\x1b[?1049l`) && seen.includes(`\x1b[?1049h\x1b[>0u${own}\x1b[2J\x1b[1;1H`));
  const restored = seen.indexOf("\x1b[?1049l\x1b[?1049h\x1b[?2004h", opened);
  assert(restored > 0 && seen.indexOf("<meanwhile>", restored) > restored, JSON.stringify(seen));
  assert(!seen.slice(opened, restored).includes("<meanwhile>"), "nothing is drawn over a question");
  assert(seen.includes("may it?�[2J"), "a question moves no cursor");
  assert(log.lastIndexOf("size") > log.indexOf("ask-2=s"));
});

Deno.test("escape, ctrl-c and an answer that fails leave no question answered", async () => {
  for (const key of ["\x1b", "\x03", "\x1e"]) {
    let done = 0;
    const answered: string[] = [];
    const screen = new QuestionScreen({
      questions: {
        pending: () => [{ ask_id: "a" } as AskView],
        text: () => "?",
        answer: (_, line) => Promise.resolve(void answered.push(line)),
      },
      write: () => {},
      done: () => done++,
    });
    screen.show();
    await screen.feed(new TextEncoder().encode(`y${key}\r`));
    assertEquals([done, answered], [1, []]);
  }
});

Deno.test("the key is known in every form in which terminals send it", () => {
  for (
    const key of ["\x1e", "\x1b[94;5u", "\x1b[54;6u", "\x1b[54:94;6:1u", "\x1b[94;133u", "\x1b[27;6;94~"]
  ) {
    assertEquals(answerKeyAt(new TextEncoder().encode(`x${key}`)), 1, JSON.stringify(key));
  }
  for (const key of ["^", "\x1b[94u", "\x1b[95;5u", "\x1b[54;6:3u", "\x1b[A"]) {
    assertEquals(answerKeyAt(new TextEncoder().encode(key)), -1, JSON.stringify(key));
  }
});
