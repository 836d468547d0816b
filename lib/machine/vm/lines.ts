/** Splits text into lines, without line endings. */
export class TextLineStream extends TransformStream<string, string> {
  constructor() {
    let rest = "";
    super({
      transform(chunk, controller) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop()!;
        for (const line of lines) controller.enqueue(line.replace(/\r$/, ""));
      },
      flush(controller) {
        if (rest) controller.enqueue(rest);
      },
    });
  }
}
