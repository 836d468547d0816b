/** Navigation: a sidebar, which collapses to its icons, and a bar at the bottom of a narrow window. */
import { type ReadonlySignal, signal } from "@preact/signals";
import { Icon, type IconName } from "../part/icon.tsx";
import { asks, vms } from "../store/store.ts";
import { text } from "../text/en.ts";
import { hrefOf } from "./route.ts";

/** A page of the navigation. */
export type NavName = keyof typeof text.page;

const ICONS: Record<NavName, IconName> = {
  overview: "overview",
  findings: "alert",
  search: "tree",
  inbox: "inbox",
  sessions: "vm",
  agents: "agent",
  costs: "costs",
  images: "images",
  rules: "rules",
  detections: "detections",
  mcp: "tools",
  credentials: "credentials",
  settings: "settings",
  status: "health",
  more: "more",
};

const GOVERN = ["rules", "detections", "mcp", "credentials"] as const;
/** Pages of the bar of a narrow window; the others are behind its last one. */
const BAR = ["overview", "inbox", "sessions", "findings", "more"] as const;
const BEHIND = ["agents", "search", "costs", ...GOVERN, "images", "settings", "status"] as const;

/** True while a condition of the window holds. */
function mediaOf(condition: string): ReadonlySignal<boolean> {
  const media = matchMedia(condition);
  const holds = signal(media.matches);
  media.addEventListener("change", () => holds.value = media.matches);
  return holds;
}

/** A window for one hand: the navigation is at its bottom. */
const isNarrow = mediaOf("(max-width: 640px)");
/** A window in which a sidebar with words leaves too little. */
const isMiddling = mediaOf("(max-width: 960px)");

/** Place of the choice in the storage of this origin. */
const COLLAPSED = "sbx-sidebar";
const isCollapsed = signal(localStorage.getItem(COLLAPSED) === "collapsed");

function collapse(): void {
  isCollapsed.value = !isCollapsed.value;
  if (isCollapsed.value) localStorage.setItem(COLLAPSED, "collapsed");
  else localStorage.removeItem(COLLAPSED);
}

interface Props {
  current: string;
  /** name of the VM that is shown */
  vm: string | undefined;
  onSearch: () => void;
}

export function Navigation(props: Props) {
  return isNarrow.value ? <BottomBar current={props.current} /> : <Sidebar {...props} />;
}

function Sidebar({ current, vm, onSearch }: Props) {
  const isSmall = isCollapsed.value || isMiddling.value;
  const words = text.frame;
  return (
    <header class={isSmall ? "sidebar collapsed" : "sidebar"}>
      <a class="brand" href={hrefOf("overview")} aria-label={text.app.name}>
        <img src="icon.svg" alt="" width="24" height="24" />
        <span class="word">{text.app.name}</span>
      </a>
      <button type="button" class="find" title={words.search} onClick={onSearch}>
        <Icon name="search" />
        <span class="word">{words.search}</span>
        <kbd class="word" aria-hidden="true">{words.searchKeys}</kbd>
      </button>
      <nav aria-label={text.app.navigation}>
        {(["overview", "inbox", "findings", "search", "costs", "agents", "sessions"] as const).map((name) => (
          <NavLink key={name} name={name} current={current} />
        ))}
        <VmLinks current={vm} />
        <h2 class="word">{words.govern}</h2>
        {GOVERN.map((name) => <NavLink key={name} name={name} current={current} />)}
        <div class="end">
          {(["images", "settings", "status"] as const).map((name) => (
            <NavLink key={name} name={name} current={current} />
          ))}
        </div>
      </nav>
      {!isMiddling.value && (
        <button
          type="button"
          class="collapse"
          aria-label={isSmall ? words.expand : words.collapse}
          title={isSmall ? words.expand : words.collapse}
          onClick={collapse}
        >
          <Icon name="collapse" />
        </button>
      )}
    </header>
  );
}

function NavLink({ name, current }: { name: NavName; current: string }) {
  return (
    <a href={hrefOf(name)} aria-current={name === current ? "page" : undefined} title={text.page[name]}>
      <Icon name={ICONS[name]} />
      <span class="word">{text.page[name]}</span>
      {name === "inbox" && asks.value.length > 0 && (
        <span class="badge" role="img" aria-label={text.inbox.waiting(asks.value.length)}>
          {asks.value.length}
        </span>
      )}
    </a>
  );
}

/** VMs that a person can reach from every page. */
const LINKS_MAX = 20;

function VmLinks({ current }: { current: string | undefined }) {
  const shown = vms.value.slice(0, LINKS_MAX);
  const waiting = new Set(asks.value.map(({ session_id }) => session_id));
  if (shown.length === 0) return null;
  return (
    <ul class="vms" aria-label={text.sessions.table}>
      {shown.map(({ id, name, status }) => (
        <li key={id}>
          <a
            href={hrefOf("vm", name)}
            aria-current={current === name ? "page" : undefined}
            title={`${name}: ${status}`}
          >
            <span class={`dot ${status} ${waiting.has(id) ? "waits" : ""}`} />
            <span class="word">{name}</span>
          </a>
        </li>
      ))}
      {vms.value.length > LINKS_MAX && (
        <li>
          <a href={hrefOf("sessions")}>
            <span class="dot" />
            <span class="word">{text.sessions.allVms(vms.value.length)}</span>
          </a>
        </li>
      )}
    </ul>
  );
}

function BottomBar({ current }: { current: string }) {
  const shown = BAR.some((name) => name === current) ? current : current === "vm" ? "sessions" : "more";
  return (
    <header class="bottom">
      <nav aria-label={text.app.navigation}>
        {BAR.map((name) => <NavLink key={name} name={name} current={shown} />)}
      </nav>
    </header>
  );
}

/** Pages behind the bar of a narrow window. */
export function MorePage() {
  return (
    <>
      <h1>{text.page.more}</h1>
      <ul class="plain more">
        {BEHIND.map((name) => (
          <li key={name}>
            <NavLink name={name} current="more" />
          </li>
        ))}
      </ul>
    </>
  );
}
