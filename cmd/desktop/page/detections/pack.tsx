/** One pack on the detections page: its rules with their switches. */
import { useSignal } from "@preact/signals";
import { api, type DetectionList } from "../../api/routes.ts";
import { ConfirmDialog, dateOf, Dialog, FormEnd, Table } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { Menu } from "../../part/menu.tsx";
import { When } from "../../part/time.tsx";
import { act, notice, textOf } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import type { Pack, PackRule } from "./packs.ts";

interface Props {
  pack: Pack;
  /** its rules are shown from the start */
  isOpen: boolean;
  onChanged: () => Promise<unknown>;
}

/**
 * A pack with its rules. Rules have a switch, except the organization's; a pack
 * added at run time can be removed.
 */
export function PackView({ pack, isOpen, onChanged }: Props) {
  const words = text.detections;
  const { id, scope, rules, matches, overlay } = pack;
  const isBroken = overlay?.compiled === false;
  return (
    <details class="pack" open={isOpen}>
      <summary>
        <span class="name">{id}</span>
        <span class="pill">{words.scopes[scope]}</span>
        {overlay && !overlay.enabled && <span class="pill ask">{words.off}</span>}
        {isBroken && <span class="pill block">{words.broken}</span>}
        <span class="hint">{words.rulesOf(rules.length)}</span>
        <span class="hint">{words.matchesOf(matches)}</span>
        {scope === "corp" && <Icon name="lock" />}
      </summary>
      {overlay && <OverlayActions overlay={overlay} onChanged={onChanged} />}
      <Table
        label={words.tableOf(id)}
        head={[words.rule, words.severity, { number: words.matches }, words.last, words.state]}
      >
        {rules.map((rule) => (
          <RuleRow key={rule.id} rule={rule} isLocked={scope === "corp"} onChanged={onChanged} />
        ))}
      </Table>
    </details>
  );
}

function RuleRow({ rule, isLocked, onChanged }: {
  rule: PackRule;
  isLocked: boolean;
  onChanged: () => Promise<unknown>;
}) {
  const words = text.detections;
  const { id, title, severity, matches, lastMatch, off } = rule;
  const isAsking = useSignal(false);
  const turnOn = async () => {
    if (await act(() => api.switchDetection(id, { enabled: true }), words.turnedOn(id))) await onChanged();
  };
  return (
    <tr class={off ? "off" : undefined}>
      <th scope="row">
        {title}
        {title !== id && <p class="hint">{id}</p>}
      </th>
      <td>{severity ? <span class={`pill ${severity}`}>{severity}</span> : text.common.none}</td>
      <td class="number">{matches.toLocaleString("en")}</td>
      <td>{lastMatch ? <When at={lastMatch} /> : text.common.none}</td>
      <td>
        {isLocked ? <span class="hint" title={words.locked}>{words.on}</span> : (
          <label class="check">
            <input
              type="checkbox"
              role="switch"
              aria-label={words.switchOf(id)}
              checked={!off}
              onClick={(event) => {
                // The service decides: the switch follows its answer.
                event.preventDefault();
                if (off) turnOn();
                else isAsking.value = true;
              }}
            />
            {off ? words.off : words.on}
          </label>
        )}
        {off && <p class="hint">{words.offBecause(off.reason, off.by, dateOf(off.at))}</p>}
        {isAsking.value && (
          <SwitchOff
            id={id}
            title={title}
            onClose={() => isAsking.value = false}
            onChanged={onChanged}
          />
        )}
      </td>
    </tr>
  );
}

/** Longest reason of a switch, as the service takes it. */
const REASON_MAX = 1000;

/** Switches a rule off, with the reason for the team. */
function SwitchOff({ id, title, onClose, onChanged }: {
  id: string;
  title: string;
  onClose: () => void;
  onChanged: () => Promise<unknown>;
}) {
  const words = text.detections;
  const error = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    isBusy.value = true;
    const reason = String(new FormData(event.target as HTMLFormElement).get("reason")).trim();
    try {
      const { propagation } = await api.switchDetection(id, { enabled: false, reason });
      notice.value = { text: words.turnedOffIn(id, propagation.target_count), isError: false };
      onClose();
      await onChanged();
    } catch (failure) {
      error.value = textOf(failure);
    }
    isBusy.value = false;
  };
  return (
    <Dialog title={words.offTitle(title)} onClose={onClose}>
      <form onSubmit={submit}>
        <p class="hint">{words.offLoss}</p>
        <label>
          {words.reason}
          <input
            name="reason"
            required
            pattern=".*\S.*"
            maxLength={REASON_MAX}
            autocomplete="off"
            autoFocus
          />
        </label>
        <FormEnd error={error.value} isBusy={isBusy.value} submit={words.switchOff} onClose={onClose} />
      </form>
    </Dialog>
  );
}

/** Actions on a pack or rule that was added at run time. */
function OverlayActions({ overlay, onChanged }: {
  overlay: DetectionList["rules"][number];
  onChanged: () => Promise<unknown>;
}) {
  const words = text.detections;
  const { id, enabled, definition } = overlay;
  const isAsking = useSignal(false);
  const turn = async () => {
    const request = { ...inputOf(definition), enabled: !enabled, replace: true };
    const said = enabled ? words.turnedOff(id) : words.turnedOn(id);
    if (await act(() => api.addDetection(request), said)) await onChanged();
  };
  const remove = async () => {
    isAsking.value = false;
    if (await act(() => api.removeDetection(id), words.removed(id))) await onChanged();
  };
  return (
    <div class="pack-actions">
      <button type="button" onClick={turn}>{enabled ? words.turnOff(id) : words.turnOn(id)}</button>
      <Menu
        label={words.moreFor(id)}
        items={[{ label: words.remove(id), isDanger: true, onChoose: () => isAsking.value = true }]}
      >
        <Icon name="more" />
      </Menu>
      {isAsking.value && (
        <ConfirmDialog
          title={words.removeTitle(id)}
          label={words.remove(id)}
          onClose={() => isAsking.value = false}
          onConfirm={remove}
        >
          <p>{words.removeLoss}</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

/** The request of an overlay as it was put in: a pack, files of Sigma rules, or a rule. */
function inputOf(definition: unknown): Record<string, unknown> {
  const keys = definition as Record<string, unknown>;
  if ("schema" in keys) return { pack: definition };
  return "files" in keys ? { sigma: definition } : { rule: definition };
}
