import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { hrefOf } from "../../app/route.ts";
import { api, type SystemStatus } from "../../api/routes.ts";
import { CommandLine } from "../../part/common.tsx";
import { connection, vms } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { doneOf, type Step, STEPS, stepsOf } from "./steps.ts";

/** `ms` between two reads of the status: a person may act in a terminal meanwhile. */
const LOOK_MS = 3000;

/** The first steps of a home, with commands to copy; advances automatically as they are done elsewhere. */
export function FirstSteps({ isOver }: { isOver?: (isOver: boolean) => void }) {
  const status = useSignal<SystemStatus | undefined>(undefined);
  const isOnline = connection.value === "online";
  const count = vms.value.length;
  const steps = status.value && stepsOf(status.value);
  const done = steps === undefined ? 0 : doneOf(steps);
  const isDone = done === STEPS.length;
  useEffect(() => {
    if (!isOnline || isDone) return;
    // A failed read is ignored, as the next one replaces it: the frame reports that sbx is away.
    const look = () => document.hidden || api.status().then((answer) => status.value = answer, () => {});
    look();
    const timer = setInterval(look, LOOK_MS);
    return () => clearInterval(timer);
  }, [isOnline, isDone, count]);
  useEffect(() => {
    if (steps !== undefined) isOver?.(isDone);
  }, [steps !== undefined, isDone]);
  const words = text.firstSteps;
  if (steps === undefined) return null;
  return (
    <section class="first-steps" aria-labelledby="first-steps">
      <h2 id="first-steps">{words.title}</h2>
      <p role="status">
        <progress max={STEPS.length} value={done} aria-hidden="true" /> {words.progress(done, STEPS.length)}
      </p>
      <ol>{steps.map((step) => <StepItem key={step.name} step={step} />)}</ol>
    </section>
  );
}

function StepItem({ step: { name, state, note } }: { step: Step }) {
  const words = text.firstSteps;
  const { what, why, command, page } = words.steps[name];
  return (
    <li class={state} aria-current={state === "next" ? "step" : undefined}>
      <h3>
        {what} <span class="hint">{words.state[state]}</span>
      </h3>
      {note && <p class="hint">{note}</p>}
      {state !== "done" && (
        <>
          <p>{why}</p>
          <CommandLine command={command} />
          <a href={hrefOf(page)}>{words.here[page]}</a>
        </>
      )}
    </li>
  );
}
