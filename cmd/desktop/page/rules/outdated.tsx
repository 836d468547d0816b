import { api, type RuleList } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";

/** Running VMs that decide by older rules, each with the way to these. */
export function Outdated({ vms, onReloaded }: { vms: RuleList["vms"]; onReloaded: () => void }) {
  const words = text.rules;
  const reload = async (id: string, name: string) => {
    await act(() => api.reloadRules(id), words.reloaded(name));
    onReloaded();
  };
  return (
    <>
      {vms.filter(({ outdated }) => outdated).map(({ id, name }) => (
        <p key={id} class="warning">
          {words.outdated(name)}{" "}
          <button type="button" onClick={() => reload(id, name)}>{words.reload(name)}</button>
        </p>
      ))}
    </>
  );
}
