/** The record of a session as evidence: verified against its chain and seal, and saved as a file. */
import { useSignal } from "@preact/signals";
import { api } from "../../api/routes.ts";
import { saveFile } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { act } from "../../store/store.ts";
import { text } from "../../text/en.ts";

type Verified = Awaited<ReturnType<typeof api.verify>>;

/** Events of one request. */
const PAGE_SIZE = "1000";

/** Buttons of a record, with the result of its check below. */
export function Evidence({ id, name }: { id: string; name: string }) {
  const busy = useSignal<string | undefined>(undefined);
  const verified = useSignal<Verified | undefined>(undefined);
  const words = text.evidence;
  const verify = async () => {
    busy.value = words.verifying;
    await act(async () => verified.value = await api.verify(id));
    busy.value = undefined;
  };
  const save = async () => {
    await act(async () => {
      const file = await eventsOf(id, (count) => busy.value = words.saving(count));
      saveFile(`${name}-${id.slice(0, 8)}.jsonl`, file);
    });
    busy.value = undefined;
  };
  const certify = async () => {
    busy.value = words.certifying;
    const file = `${name}-${id.slice(0, 8)}.cert.json`;
    await act(async () => {
      const envelope = await api.certificate(id);
      saveFile(file, new Blob([`${JSON.stringify(envelope)}\n`], { type: "application/json" }));
    }, words.certified(file));
    busy.value = undefined;
  };
  const isBusy = busy.value !== undefined;
  return (
    <>
      <div class="buttons evidence">
        <button type="button" disabled={isBusy} onClick={verify}>
          <Icon name="allow" /> {words.verify}
        </button>
        <button type="button" disabled={isBusy} onClick={save}>
          <Icon name="download" /> {words.save}
        </button>
        <button type="button" disabled={isBusy} onClick={certify}>
          <Icon name="verified" /> {words.certify}
        </button>
        <span class="hint" role="status">{busy.value}</span>
      </div>
      {verified.value && <Result verified={verified.value} />}
    </>
  );
}

function Result({ verified }: { verified: Verified }) {
  const { ok, events, sealed, signed_by, witnessed, first_bad } = verified;
  const words = text.evidence;
  const proof = !sealed
    ? words.notSealed(witnessed?.events)
    : signed_by
    ? words.signed(signed_by)
    : words.notSigned;
  return (
    <div class={ok ? "summary good" : "summary bad"} role="status">
      <Icon name={ok ? "verified" : "alert"} />
      <span>{ok ? words.valid(events) : words.invalid(events, first_bad?.reason)}</span>
      {ok && sealed && witnessed && <p class="hint">{words.witnessed(witnessed.events)}</p>}
      {ok && <p class="hint">{proof}</p>}
    </div>
  );
}

/** Every event of a record, one a line. @param onProgress gets the number of events so far */
async function eventsOf(id: string, onProgress: (count: number) => void): Promise<Blob> {
  // Each part goes to the browser, which may keep it on disk.
  let file = new Blob([], { type: "application/jsonl" });
  let count = 0;
  let cursor: string | undefined;
  do {
    const page = await api.events(id, { cursor, limit: PAGE_SIZE });
    const lines = page.events.map((event) => `${JSON.stringify(event)}\n`).join("");
    file = new Blob([file, lines], { type: file.type });
    onProgress(count += page.events.length);
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  return file;
}
