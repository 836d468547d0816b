/** Costs of model calls in all sessions, by day and by model. The span is in the address. */
import type { ComponentChildren } from "preact";
import { api } from "../../api/routes.ts";
import { query, setQuery } from "../../app/route.ts";
import { Table } from "../../part/common.tsx";
import { CostChart } from "../../part/cost_chart.tsx";
import { Segments } from "../../part/segments.tsx";
import { now } from "../../part/time.tsx";
import { costDaysOf, type DayCost, modelOf } from "../../store/cost_days.ts";
import { useSpent } from "../../store/looks.ts";
import { useLoaded } from "../../store/store.ts";
import { text } from "../../text/en.ts";

const SPANS = [7, 30, 90] as const;
const SPAN = 30;
const DAY_MS = 24 * 3600 * 1000;

export function CostsPage() {
  const span = SPANS.find((each) => String(each) === query.value.days) ?? SPAN;
  const today = Math.floor(now.value / DAY_MS);
  const { value } = useLoaded(
    () => api.costsAcross({ since: String((today - span + 1) * DAY_MS) }),
    [span, today, useSpent()],
  );
  const words = text.costs;
  return (
    <>
      <div class="head">
        <h1>{text.page.costs}</h1>
        <Segments
          label={words.days}
          choices={SPANS}
          chosen={span}
          textOf={words.last}
          onChoose={(each) => setQuery({ days: each === SPAN ? undefined : String(each) })}
        />
      </div>
      <p class="lead">{words.about}</p>
      {value.value
        ? <Found {...value.value} span={span} />
        : <p class="hint" role="status">{text.common.loading}</p>}
    </>
  );
}

type Answer = Awaited<ReturnType<typeof api.costsAcross>>;

function Found({ days, prices, unreadable, span }: Answer & { span: number }) {
  const words = text.costs;
  const costs = costDaysOf(days, now.value, span);
  const total = sumOf(days);
  const today = sumOf(days.filter(({ day }) => day === costs.days.at(-1)?.day));
  const unread = unreadable.length > 0 && words.unreadable(unreadable.length);
  if (days.length === 0) return <p class="empty">{words.none} {unread}</p>;
  return (
    <>
      <ul class="tiles three" aria-label={words.byDay}>
        <Tile name={words.total(span)} note={words.calls(total.calls)}>{words.dollars(total.micros)}</Tile>
        <Tile name={words.today} note={words.calls(today.calls)}>{words.dollars(today.micros)}</Tile>
        <Tile name={words.mean} note={words.last(span)}>{words.dollars(total.micros / span)}</Tile>
      </ul>
      <section aria-label={words.byDay}>
        <h2>{words.byDay}</h2>
        <CostChart costs={costs} />
      </section>
      <section aria-label={words.byModel}>
        <h2>{words.byModel}</h2>
        <ModelTable rows={days} />
      </section>
      <section aria-label={words.each}>
        <h2>{words.each}</h2>
        <Table
          label={words.each}
          head={[words.day, { number: text.calls.count }, { number: text.calls.cost }]}
        >
          {costs.days.filter(({ micros, day }) => micros > 0 || days.some((row) => row.day === day)).reverse()
            .map((
              { day, micros },
            ) => (
              <tr key={day}>
                <th scope="row">{day}</th>
                <td class="number">
                  {sumOf(days.filter((row) => row.day === day)).calls.toLocaleString("en")}
                </td>
                <td class="number">{words.dollars(micros)}</td>
              </tr>
            ))}
        </Table>
      </section>
      <p class="hint">
        {text.calls.prices(prices)} {unread}
      </p>
    </>
  );
}

function Tile({ name, note, children }: { name: string; note: string; children: ComponentChildren }) {
  return (
    <li class="tile">
      <span>{name}</span>
      <strong>{children}</strong>
      <span class="hint">{note}</span>
    </li>
  );
}

function ModelTable({ rows }: { rows: DayCost[] }) {
  const words = text.calls;
  const names = [...new Set(rows.map(modelOf))];
  const models = names.map((name) => {
    const own = rows.filter((row) => modelOf(row) === name);
    const sum = (of: "calls" | "input_tokens" | "output_tokens" | "unpriced_calls" | "cost_micros") =>
      own.reduce((all, row) => all + row[of], 0);
    return {
      name,
      numbers: [sum("calls"), sum("input_tokens"), sum("output_tokens")],
      micros: sum("cost_micros"),
      unpriced: sum("unpriced_calls"),
    };
  }).sort((a, b) => b.micros - a.micros);
  return (
    <Table
      label={text.costs.byModel}
      head={[
        words.model,
        ...[words.count, words.input, words.output, words.cost].map((number) => ({ number })),
      ]}
    >
      {models.map(({ name, numbers, micros, unpriced }) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          {numbers.map((number, at) => <td key={at} class="number">{number.toLocaleString("en")}</td>)}
          <td class="number">{words.dollars(micros, unpriced)}</td>
        </tr>
      ))}
    </Table>
  );
}

function sumOf(rows: readonly DayCost[]): { calls: number; micros: number } {
  return {
    calls: rows.reduce((all, { calls }) => all + calls, 0),
    micros: rows.reduce((all, { cost_micros }) => all + cost_micros, 0),
  };
}
