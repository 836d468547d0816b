import { api, type McpChange } from "../../api/routes.ts";
import { act } from "../../store/act.ts";
import { text } from "../../text/en.ts";
import { type Part, partsOf } from "./words.ts";

interface Props {
  profile: string;
  change: McpChange;
  onApproved: () => void;
}

/** A tool whose definition differs from the approved one, word by word. */
export function Change({ profile, change, onApproved }: Props) {
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
