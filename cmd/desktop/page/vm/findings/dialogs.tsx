/** The dialogs of a finding: it is closed with a verdict, or excepted. */
import { useSignal } from "@preact/signals";
import { api, type FindingStateChange, type ListedFinding } from "../../../api/routes.ts";
import { Dialog, FormEnd } from "../../../part/common.tsx";
import { notice, textOf } from "../../../store/store.ts";
import { text } from "../../../text/en.ts";
import type { Recorded } from "../timeline/view.tsx";
import { requestsOf } from "./group.ts";

interface End {
  vm: Recorded;
  onChanged: () => Promise<void>;
  onClose: () => void;
}

const VERDICTS = ["true-positive", "false-positive", "accepted"] as const;
type Verdict = typeof VERDICTS[number];

/** Gives findings a state, however many a row has. */
export async function changeFindings({ id }: Recorded, ids: string[], state: FindingStateChange) {
  for (const part of requestsOf(ids)) await api.changeFindings(id, part, state);
}

/** Closes findings with a verdict and a reason. */
export function CloseDialog({ vm, title, ids, onChanged, onClose }: End & { title: string; ids: string[] }) {
  const words = text.findings;
  const form = useForm(onChanged, onClose, async (data) => {
    const verdict = data.get("verdict") as Verdict;
    const reason = String(data.get("reason")).trim() || undefined;
    await changeFindings(vm, ids, { status: "closed", verdict, reason });
    return words.closed(ids.length);
  });
  return (
    <Dialog title={words.closeOf(title)} onClose={onClose}>
      <form onSubmit={form.submit}>
        <label>
          {words.verdict}
          <select name="verdict">
            {VERDICTS.map((each) => <option key={each} value={each}>{words.verdicts[each]}</option>)}
          </select>
        </label>
        <label>
          {words.reason}
          <input name="reason" maxLength={1000} autocomplete="off" />
        </label>
        <FormEnd error={form.error} isBusy={form.isBusy} submit={words.close} onClose={onClose} />
      </form>
    </Dialog>
  );
}

const PROPERTIES = ["host", "program", "vm"] as const;

/** `days` of a new exception. */
const DAYS = 30;

/** Excepts findings like this one from its rule, for some days. */
export function ExceptDialog({ vm, finding, onChanged, onClose }: End & { finding: ListedFinding }) {
  const words = text.findings;
  const form = useForm(onChanged, onClose, async (data) => {
    const of = PROPERTIES.filter((property) => data.has(property));
    if (of.length === 0) throw new Error(words.needsProperty);
    const { id } = await api.exceptFinding(vm.id, {
      finding: finding.finding_id,
      of,
      days: Number(data.get("days")),
      reason: String(data.get("reason")).trim(),
    });
    return words.excepted(id);
  });
  return (
    <Dialog title={words.exceptOf(finding.title)} onClose={onClose}>
      <form onSubmit={form.submit}>
        <fieldset>
          <legend>{words.sameOf}</legend>
          {PROPERTIES.map((property) => (
            <label key={property} class="check">
              <input name={property} type="checkbox" defaultChecked={property === "vm"} />
              {words.properties[property]}
            </label>
          ))}
        </fieldset>
        <label>
          {words.days}
          <input name="days" type="number" min="1" max="366" defaultValue={String(DAYS)} required />
        </label>
        <label>
          {words.reason}
          <input name="reason" required maxLength={1000} autocomplete="off" />
        </label>
        <FormEnd error={form.error} isBusy={form.isBusy} submit={words.except} onClose={onClose} />
      </form>
    </Dialog>
  );
}

/** A form whose failure is shown in it. @param send returns the words of its success */
function useForm(
  onChanged: End["onChanged"],
  onClose: () => void,
  send: (data: FormData) => Promise<string>,
) {
  const error = useSignal<string | undefined>(undefined);
  const isBusy = useSignal(false);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    isBusy.value = true;
    try {
      notice.value = { text: await send(new FormData(event.target as HTMLFormElement)), isError: false };
      onClose();
      await onChanged();
    } catch (failure) {
      error.value = textOf(failure);
    }
    isBusy.value = false;
  };
  return { submit, error: error.value, isBusy: isBusy.value };
}
