/** The progress of a task, its end, and what to do when it failed. */
import type { Task } from "../api/routes.ts";
import { drop } from "../store/tasks.ts";
import { text } from "../text/en.ts";
import { commandsOf } from "./advice.ts";
import { Icon } from "./icon.tsx";
import { Advice } from "./remedy.tsx";
import { When } from "./time.tsx";

export function TaskCard({ task, title, onAgain }: { task: Task; title: string; onAgain?: () => void }) {
  const { state, stage, share, started_at, error, lines } = task;
  const words = text.tasks;
  const percent = share === undefined ? undefined : Math.round(share * 100);
  return (
    <article class={`task ${state}`} aria-label={title}>
      <div class="task-head">
        <strong>{title}</strong>
        <span class="hint" role="status">
          {state === "running" ? words.stage(stage) : words.states[state]}
          {percent !== undefined && state === "running" && ` · ${percent} %`}
        </span>
        <span class="hint">
          <When at={started_at} />
        </span>
        {state === "running"
          ? <button type="button" onClick={() => drop(task)}>{text.common.cancel}</button>
          : (
            <button
              type="button"
              class="ghost"
              aria-label={words.dismissOf(title)}
              onClick={() => drop(task)}
            >
              <Icon name="close" />
            </button>
          )}
      </div>
      {state === "running" && (
        <progress aria-label={title} max={1} value={share === undefined ? undefined : share} />
      )}
      {error && (
        <div role="alert">
          <p class="error">{error.error}</p>
          {error.hint && <Advice text={error.hint} commands={commandsOf(error.hint)} />}
        </div>
      )}
      {state === "failed" && lines.length > 0 && (
        <details>
          <summary>{words.output}</summary>
          <pre class="body" tabIndex={0} aria-label={words.output}>{lines.join("\n")}</pre>
        </details>
      )}
      {state === "failed" && onAgain && (
        <p>
          <button type="button" onClick={onAgain}>{words.again}</button>
        </p>
      )}
    </article>
  );
}
