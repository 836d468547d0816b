/** A VM that a finding holds back: why, since when and by whom, and the button that lets it go on. */
import { api, type VmSummary } from "../../../api/routes.ts";
import { ConfirmButton, dateOf } from "../../../part/common.tsx";
import { hrefOf } from "../../../app/route.ts";
import { act } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";

export function HeldView({ vm }: { vm: VmSummary }) {
  const { response, name } = vm;
  if (!response) return null;
  const words = text.findings.held;
  const { actions, notes, since_unix_ms } = response;
  // One finding may have caused several of them.
  const causes = Map.groupBy(actions, ({ cause }) => cause.finding_id).values().map(([{ cause }]) => cause);
  const isStill = actions.some(({ action }) => action === "pause" || action === "suspend");
  return (
    <section class="held" aria-label={words.title(name)}>
      <h2>{words.title(name)}</h2>
      <p>{actions.map(({ action, by }) => words.action(action, by)).join(" ")}</p>
      <ul>
        {[...causes].map(({ finding_id, event_id, rule_id, severity, title }) => (
          <li key={finding_id}>
            {severity}: <a href={`${hrefOf("vm", name, "timeline")}?event=${event_id}`}>{title}</a>{" "}
            <code>{rule_id}</code>
          </li>
        ))}
        {notes.map((note) => <li key={note}>{note}</li>)}
      </ul>
      <p class="buttons">
        <span>{words.since(dateOf(since_unix_ms))}</span>
        <a href={hrefOf("vm", name, "findings")}>{words.findings}</a>
        <ConfirmButton
          label={words.lift(name)}
          question={words.question(name)}
          loss={isStill ? words.lossStill : words.loss}
          onConfirm={() => act(() => api.lift(vm.id), words.lifted(name, isStill))}
        />
      </p>
    </section>
  );
}
