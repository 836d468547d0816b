import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { api } from "../../api/routes.ts";
import { useLoaded } from "../../part/load.ts";
import { ProfileChoice, useProfile } from "../../part/profile_choice.tsx";
import { Table } from "../../part/table.tsx";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { Change } from "./change.tsx";
import { Tools } from "./tools.tsx";

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
    // Tools are compared with their approved definitions when they are listed; without a VM there is nothing to list.
    await api.mcpTools(profile.value, server).catch(() => {});
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
