import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "../../api/client.ts";
import { api, type McpChange } from "../../api/routes.ts";
import { CommandLine, Dialog, ProfileChoice, Table, useProfile } from "../../part/common.tsx";
import { Icon } from "../../part/icon.tsx";
import { Menu } from "../../part/menu.tsx";
import { act, useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";
import { type Part, partsOf } from "./words.ts";

/** MCP servers of a profile, and tools that are held back because they changed. */
export function McpPage() {
  const profile = useProfile();
  /** server whose tools are shown */
  const open = useSignal<string | undefined>(undefined);
  /** grows with each new list of tools */
  const listed = useSignal(0);
  useEffect(() => void (open.value = undefined), [profile.value]);
  const servers = useLoaded(() => api.mcpServers(profile.value), [profile.value]);
  const changes = useLoaded(() => api.mcpChanges(profile.value), [profile.value]);
  const words = text.mcp;
  const list = servers.value.value;
  const refresh = async (server: string) => {
    await act(() => api.refreshMcp(profile.value, server), words.refreshed(server));
    // Tools are compared with their approved definitions when they are listed.
    await act(() => api.mcpTools(profile.value, server).catch(exceptWithoutVm));
    listed.value++;
    await Promise.all([servers.reload(), changes.reload()]);
  };
  return (
    <>
      <div class="head">
        <h1>{text.page.mcp}</h1>
        <ProfileChoice chosen={profile} />
      </div>
      <p class="lead">{words.about}</p>
      {changes.value.value?.changes.map((change) => (
        <Change
          key={change.server + change.tool}
          profile={profile.value}
          change={change}
          onApproved={() => {
            listed.value++;
            changes.reload();
          }}
        />
      ))}
      {list === undefined && <p role="status">{text.common.loading}</p>}
      {list?.servers.length === 0 && (
        <div class="nothing">
          <Icon name="tools" size={24} />
          <p>{words.empty}</p>
        </div>
      )}
      {list && list.servers.length > 0 && list.vm === undefined && <p class="hint">{words.noVm}</p>}
      {list && list.servers.length > 0 && (
        <Table
          label={words.servers}
          head={[words.server, words.source, words.state, { number: words.tools }, words.actions]}
        >
          {list.servers.map((server) => (
            <ServerRow
              key={server.name}
              profile={profile.value}
              server={server}
              isOpen={open.value === server.name}
              onToggle={() => open.value = open.value === server.name ? undefined : server.name}
              onRefresh={() => refresh(server.name)}
            />
          ))}
        </Table>
      )}
      {open.value && <Tools key={open.value + listed.value} profile={profile.value} server={open.value} />}
      <AddServer profile={profile.value} />
    </>
  );
}

type Server = Awaited<ReturnType<typeof api.mcpServers>>["servers"][number];

function ServerRow({ profile, server, isOpen, onToggle, onRefresh }: {
  profile: string;
  server: Server;
  isOpen: boolean;
  onToggle: () => void;
  onRefresh: () => Promise<void>;
}) {
  const words = text.mcp;
  const { name, url, source, enabled, connected, tool_count, last_error } = server;
  const logout = () => act(() => api.logoutMcp(profile, name), words.loggedOut(name));
  const isRemote = /^https?:/.test(url);
  return (
    <tr class={enabled ? undefined : "off"}>
      <th scope="row">
        {name}
        {url && <p class="hint">{url}</p>}
      </th>
      <td>{words.sources[source] ?? source}</td>
      <td>
        <span class={`pill state ${connected ? "Running" : enabled ? "Paused" : ""}`}>
          {connected ? words.connected : enabled ? words.waiting : words.off}
        </span>
        {last_error && <p class="error">{last_error}</p>}
      </td>
      <td class="number">{tool_count}</td>
      <td class="actions">
        <button type="button" aria-pressed={isOpen} aria-label={words.toolsOf(name)} onClick={onToggle}>
          {words.tools}
        </button>
        <button type="button" aria-label={words.refresh(name)} onClick={onRefresh}>{words.reconnect}</button>
        {isRemote && <LoginButton profile={profile} server={name} onDone={onRefresh} />}
        {isRemote && (
          <Menu
            label={words.moreFor(name)}
            items={[{ label: words.logout(name), isDanger: true, onChoose: logout }]}
          >
            <Icon name="more" />
          </Menu>
        )}
      </td>
    </tr>
  );
}

/** `ms` between two questions whether a login is over. */
const LOGIN_MS = 2000;

/** Logs in at a server in another tab of this browser, and connects to it then. */
function LoginButton({ profile, server, onDone }: {
  profile: string;
  server: string;
  onDone: () => Promise<void>;
}) {
  const words = text.mcp;
  const waiting = useSignal<{ url: string; issuer: string } | undefined>(undefined);
  const begin = () => act(async () => waiting.value = await api.loginMcp(profile, server));
  useEffect(() => {
    if (!waiting.value) return;
    const timer = setInterval(async () => {
      const { state } = await api.mcpLogin(profile, server).catch(() => ({ state: "waiting" }));
      if (state === "waiting" || !waiting.peek()) return;
      waiting.value = undefined;
      await act(async () => {}, state === "logged_in" ? words.loggedIn(server) : words.notLoggedIn(server));
      if (state === "logged_in") await onDone();
    }, LOGIN_MS);
    return () => clearInterval(timer);
  }, [waiting.value]);
  if (!waiting.value) {
    return <button type="button" aria-label={words.login(server)} onClick={begin}>{words.loginShort}</button>;
  }
  const { url, issuer } = waiting.value;
  return (
    <Dialog title={words.login(server)} onClose={() => waiting.value = undefined}>
      <p>{words.loginAbout(issuer)}</p>
      <p>
        <a href={url} target="_blank" rel="noreferrer">{words.openLogin(issuer)}</a>
      </p>
      <p role="status" class="hint">{words.loginWaits}</p>
      <div class="buttons">
        <button type="button" onClick={() => waiting.value = undefined}>{text.common.close}</button>
      </div>
    </Dialog>
  );
}

/** TOML that adds a server to a profile. The team reviews that file, so the page does not write it. */
function AddServer({ profile }: { profile: string }) {
  const words = text.mcp;
  return (
    <details class="pack">
      <summary>
        <span class="name">{words.add}</span>
      </summary>
      <div class="pack-text">
        <p>{words.addAbout(profile)}</p>
        <pre>{words.addExample}</pre>
        <CommandLine command={words.addCommand(profile)} />
      </div>
    </details>
  );
}

/** Without a VM of the profile there are no tools to list. */
function exceptWithoutVm(error: unknown): void {
  if (!(error instanceof ApiError) || error.code !== "mcp.conflict") throw error;
}

/** Characters of a pin that are shown. */
const PIN_SHOWN = 12;

/** Tools of one server as a running VM sees them. */
function Tools({ profile, server }: { profile: string; server: string }) {
  const { value } = useLoaded(() => api.mcpTools(profile, server), [profile, server]);
  const words = text.mcp;
  const tools = value.value?.tools;
  return (
    <section aria-label={words.toolsOf(server)}>
      <h2>{words.toolsOf(server)}</h2>
      {tools?.length === 0 && <p class="hint">{words.noTools}</p>}
      <Table label={words.toolsOf(server)} head={[words.tool, words.description, words.pin]}>
        {tools?.map(({ namespaced_name, original_name, description, pin_hash, pin_changed }) => (
          <tr key={namespaced_name}>
            <th scope="row">{original_name}</th>
            <td>{description}</td>
            <td>
              <code>{pin_hash.slice(0, PIN_SHOWN)}</code>
              {pin_changed && <span class="tag">{words.isHeldBack}</span>}
            </td>
          </tr>
        ))}
      </Table>
    </section>
  );
}

interface Props {
  profile: string;
  change: McpChange;
  onApproved: () => void;
}

/** A tool whose definition differs from the approved one, word by word. */
function Change({ profile, change, onApproved }: Props) {
  const words = text.mcp;
  const approve = async () => {
    const { server, tool, after_hash } = change;
    await act(() => api.approveMcp(profile, server, tool, after_hash), words.approved(tool));
    onApproved();
  };
  return (
    <section class="ask" aria-label={words.heldBack(change.server, change.tool)}>
      <h2>{words.heldBack(change.server, change.tool)}</h2>
      <dl class="fields" tabIndex={0}>
        {change.diff.map((diff) => (
          <div key={diff.field}>
            <dt>{diff.field}</dt>
            <dd>
              <WordDiff parts={partsOf(change, diff)} />
            </dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={approve}>{words.approve(change.tool)}</button>
    </section>
  );
}

/** Parts of a text as deletions and insertions. */
function WordDiff({ parts }: { parts: Part[] }) {
  return (
    <>
      {parts.map(({ op, text }, at) => {
        if (op === "remove") return <del key={at}>{text}</del>;
        return op === "add" ? <ins key={at}>{text}</ins> : text;
      })}
    </>
  );
}
