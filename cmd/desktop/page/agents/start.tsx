/** Starts an agent on a folder: its folder, its task, its key, and the build of its image. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { go } from "../../app/route.ts";
import { ApiError } from "../../api/client.ts";
import { type Agent, api, type CredentialView } from "../../api/routes.ts";
import { Icon } from "../../part/icon.tsx";
import { textOf, useLoaded } from "../../store/store.ts";
import { begin, tasks } from "../../store/tasks.ts";
import { text } from "../../text/en.ts";
import { AddDialog } from "../credentials/add.tsx";
import { LoginDialog } from "../credentials/login.tsx";
import { keysFor, NO_KEY } from "./keys.ts";

interface Props {
  agent: Agent;
  credentials: CredentialView[] | undefined;
  /** reads them again */
  onKeys: () => void;
}

/** Errors beside their fields. */
interface Problems {
  dir?: string;
  name?: string;
  form?: string;
}

export function StartForm({ agent, credentials, onKeys }: Props) {
  const dir = useSignal("");
  const problems = useSignal<Problems>({});
  const started = useSignal<{ task: string; view: string } | undefined>(undefined);
  /** until the service has answered: a second click would start a second VM */
  const isSending = useSignal(false);
  const words = text.agents;
  const keys = agent.provider === undefined ? keysFor(agent, []) : credentials && keysFor(agent, credentials);
  const task = tasks.value?.find(({ id }) => id === started.value?.task);
  const isRunning = task?.state === "running";
  useEffect(() => {
    if (task?.state === "done" && task.vm !== undefined) go("vm", task.vm, started.peek()!.view);
  }, [task?.state]);
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
    const folder = dir.value.trim().replace(/(?<=.)\/+$/, "");
    problems.value = folder.startsWith("/") ? {} : { dir: words.needsFolder };
    if (problems.value.dir) return;
    const prompt = word("prompt");
    isSending.value = true;
    try {
      const request = { dir: folder, prompt, name: word("name"), credential: word("credential") };
      const { id } = await begin(() => api.startAgent(agent.id, request));
      // Its progress is above the tiles.
      scrollTo({ top: 0 });
      started.value = { task: id, view: prompt === undefined ? "terminal" : "timeline" };
    } catch (failure) {
      const field = failure instanceof ApiError && failure.code === "folder.not_found"
        ? "dir"
        : /\bname\b/.test(textOf(failure))
        ? "name"
        : "form";
      problems.value = { [field]: textOf(failure) };
    } finally {
      isSending.value = false;
    }
  };
  return (
    <form class="start" onSubmit={submit} aria-label={words.startOn(agent.name)} noValidate>
      <h2>{words.startOn(agent.name)}</h2>
      <FolderField dir={dir} problem={problems.value.dir} />
      <label>
        {words.prompt}
        <textarea name="prompt" rows={3} placeholder={words.promptExample} aria-describedby="prompt-hint" />
      </label>
      <p class="hint" id="prompt-hint">{words.promptHint}</p>
      {keys && <KeyField agent={agent} keys={keys} onKeys={onKeys} />}
      <details open={problems.value.name !== undefined}>
        <summary>{words.more}</summary>
        <label>
          {words.name}
          <input
            name="name"
            autocomplete="off"
            maxLength={64}
            aria-invalid={problems.value.name !== undefined || undefined}
            aria-describedby="name-problem"
          />
        </label>
        <div id="name-problem" role="alert">
          {problems.value.name && <p class="error">{problems.value.name}</p>}
        </div>
      </details>
      {problems.value.form && <p class="error" role="alert">{problems.value.form}</p>}
      <div class="buttons">
        <button type="submit" class="main" disabled={isSending.value || isRunning || !keys?.length}>
          <Icon name="play" /> {words.start}
        </button>
        {agent.version === undefined && <span class="hint">{words.imageFirst}</span>}
      </div>
    </form>
  );
}

/** The key in use, several to choose from, or how to get one. */
function KeyField(
  { agent, keys, onKeys }: { agent: Agent; keys: ReturnType<typeof keysFor>; onKeys: () => void },
) {
  const isAdding = useSignal(false);
  const isLoggingIn = useSignal(false);
  const providers = useLoaded(api.credentialProviders).value.value?.providers;
  const logins = useLoaded(api.logins).value.value?.logins;
  const words = text.agents;
  const { provider, name, reads } = agent;
  const usable = keys.filter((key) => key !== NO_KEY);
  if (keys.includes(NO_KEY)) return <p class="hint">{words.keyNone}</p>;
  const login = reads.includes("subscription")
    ? logins?.find((each) => each.provider === provider)
    : undefined;
  const labelled = usable.filter(({ label }) => label !== undefined);
  if (usable.length > 0) {
    return (
      <label>
        {words.key}
        <select name="credential">
          <option value="">{words.keyIs(usable[0].label ?? words.lastAdded)}</option>
          {labelled.slice(usable[0].label === undefined ? 0 : 1).map(({ ref, label, kind }) => (
            <option key={ref} value={label}>{`${label} (${text.credentials.kinds[kind]})`}</option>
          ))}
        </select>
      </label>
    );
  }
  const title = providers?.find(({ id }) => id === provider)?.title ?? provider!;
  return (
    <div class="needs-key">
      <p>
        <Icon name="credentials" /> {words.keyMissing(name, title)}
      </p>
      <div class="buttons">
        <button type="button" onClick={() => isAdding.value = true}>{words.addKey}</button>
        {login && <button type="button" onClick={() => isLoggingIn.value = true}>{words.login}</button>}
      </div>
      {isAdding.value && (
        <AddDialog
          provider={provider}
          onAdded={onKeys}
          onClose={() => isAdding.value = false}
        />
      )}
      {login && isLoggingIn.value && (
        <LoginDialog
          login={login}
          onDone={onKeys}
          onClose={() => isLoggingIn.value = false}
        />
      )}
    </div>
  );
}

type Folders = Awaited<ReturnType<typeof api.folders>>["folders"];

/** A path with its completion: arrow keys choose, Enter and Tab take, a click takes. */
function FolderField({ dir, problem }: { dir: Signal<string>; problem: string | undefined }) {
  const found = useSignal<Folders>([]);
  const at = useSignal(-1);
  const isOpen = useSignal(false);
  const field = useRef<HTMLInputElement>(null);
  const words = text.agents;
  useEffect(() => {
    let isLate = false;
    api.folders(dir.value).then(({ folders }) => isLate || ([found.value, at.value] = [folders, -1]), () => {
      // Without completion a person types the path.
    });
    return () => isLate = true;
  }, [dir.value]);
  useLayoutEffect(() => field.current?.focus(), []);
  const take = (path: string) => {
    dir.value = path;
    isOpen.value = false;
    field.current?.focus();
  };
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const chosen = found.value[at.value];
    if (step !== undefined && found.value.length > 0) {
      isOpen.value = true;
      at.value = (at.value + step + found.value.length) % found.value.length;
    } else if (isOpen.value && event.key === "Escape") isOpen.value = false;
    else if (isOpen.value && chosen && (event.key === "Enter" || event.key === "Tab")) {
      // A slash goes on into the folder.
      take(event.key === "Tab" ? `${chosen.path}/` : chosen.path);
      isOpen.value = event.key === "Tab";
    } else return;
    event.preventDefault();
  };
  const isShown = isOpen.value && found.value.length > 0;
  return (
    <>
      <label for="start-folder">{words.folder}</label>
      <div class="completed">
        <input
          id="start-folder"
          ref={field}
          role="combobox"
          autocomplete="off"
          spellcheck={false}
          placeholder="/"
          aria-autocomplete="list"
          aria-expanded={isShown}
          aria-controls="folders"
          aria-activedescendant={isShown && at.value >= 0 ? `folder-${at.value}` : undefined}
          aria-describedby="folder-hint folder-problem"
          aria-invalid={problem !== undefined || undefined}
          value={dir.value}
          onFocus={() => isOpen.value = true}
          onBlur={() => isOpen.value = false}
          onInput={({ currentTarget }) => {
            dir.value = currentTarget.value;
            isOpen.value = true;
          }}
          onKeyDown={onKey}
        />
        <ul id="folders" role="listbox" aria-label={words.folders} hidden={!isShown}>
          {found.value.map(({ path, is_repository }, place) => (
            <li
              key={path}
              id={`folder-${place}`}
              role="option"
              aria-selected={place === at.value}
              // The focus stays in the field.
              onPointerDown={(event) => event.preventDefault()}
              onClick={() => take(path)}
            >
              <Icon name={is_repository ? "work" : "files"} /> {path}
              {is_repository && <span class="hint">{words.repository}</span>}
            </li>
          ))}
        </ul>
      </div>
      <p class="hint" id="folder-hint">{words.folderHint}</p>
      <div id="folder-problem" role="alert">{problem && <p class="error">{problem}</p>}</div>
    </>
  );
}
