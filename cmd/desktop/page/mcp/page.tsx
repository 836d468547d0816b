import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { ApiError } from "../../api/client.ts";
import { api, type McpChange } from "../../api/routes.ts";
import { ProfileChoice, Table, useProfile } from "../../part/common.tsx";
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
      {servers.value.value?.servers.length === 0 && <p class="empty">{words.empty}</p>}
      <Table
        label={words.servers}
        head={[words.server, words.source, words.state, words.tools, words.actions]}
      >
        {servers.value.value?.servers.map((
          { name, url, source, enabled, connected, tool_count, last_error },
        ) => (
          <tr key={name}>
            <th scope="row">
              {name}
              <p class="hint">{url}</p>
            </th>
            <td>{source}</td>
            <td>
              {connected ? words.connected : enabled ? words.waiting : words.off}
              {last_error && <p class="error">{last_error}</p>}
            </td>
            <td>{tool_count}</td>
            <td class="actions">
              <button
                type="button"
                aria-pressed={open.value === name}
                onClick={() => open.value = open.value === name ? undefined : name}
              >
                {words.toolsOf(name)}
              </button>
              <button type="button" onClick={() => refresh(name)}>{words.refresh(name)}</button>
            </td>
          </tr>
        ))}
      </Table>
      {open.value && <Tools key={open.value + listed.value} profile={profile.value} server={open.value} />}
    </>
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
