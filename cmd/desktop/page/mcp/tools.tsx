import { api } from "../../api/routes.ts";
import { useLoaded } from "../../part/load.ts";
import { Table } from "../../part/table.tsx";
import { text } from "../../text/en.ts";

/** Characters of a pin that are shown. */
const PIN_SHOWN = 12;

/** Tools of one server as a running VM sees them. */
export function Tools({ profile, server }: { profile: string; server: string }) {
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
