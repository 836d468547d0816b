import type { ComponentType } from "preact";
import { CredentialsPage } from "../page/credentials/page.tsx";
import { DetectionsPage } from "../page/detections/page.tsx";
import { InboxPage } from "../page/inbox/page.tsx";
import { McpPage } from "../page/mcp/page.tsx";
import { RulesPage } from "../page/rules/page.tsx";
import { SessionsPage } from "../page/sessions/page.tsx";
import { SettingsPage } from "../page/settings/page.tsx";
import { StatusPage } from "../page/status/page.tsx";
import { SessionPage, VmPage } from "../page/vm/page.tsx";
import { CommandLine, Notice } from "../part/common.tsx";
import { asks, connection, vms } from "../store/store.ts";
import { text } from "../text/en.ts";
import { AskBar } from "./notify.tsx";
import { hrefOf, route } from "./route.ts";

const PAGES = {
  sessions: SessionsPage,
  inbox: InboxPage,
  rules: RulesPage,
  detections: DetectionsPage,
  mcp: McpPage,
  credentials: CredentialsPage,
  settings: SettingsPage,
  status: StatusPage,
  vm: VmPage,
  session: SessionPage,
} satisfies Record<string, ComponentType>;
type PageName = keyof typeof PAGES;
/** Pages of the navigation; a VM's are reached from its name. */
const NAMES = [
  "sessions",
  "inbox",
  "rules",
  "detections",
  "mcp",
  "credentials",
  "settings",
  "status",
] as const;

function isPage(name: string | undefined): name is PageName {
  return name !== undefined && Object.hasOwn(PAGES, name);
}

/** The frame of every page. */
export function Shell() {
  if (connection.value === "signed-out") return <SignedOut />;
  const [name, subject] = route.value;
  const current = isPage(name) ? name : "sessions";
  const Page = PAGES[current];
  return (
    <>
      <a class="skip" href="#main" onClick={focusMain}>{text.app.skip}</a>
      <div class="frame">
        <header>
          <strong>{text.app.name}</strong>
          <nav aria-label={text.app.navigation}>
            {NAMES.map((each) => (
              <a href={hrefOf(each)} aria-current={each === current ? "page" : undefined}>
                {text.page[each]}
                {each === "inbox" && asks.value.length > 0 && (
                  <span class="badge" aria-label={text.inbox.waiting(asks.value.length)}>
                    {asks.value.length}
                  </span>
                )}
              </a>
            ))}
          </nav>
          <VmLinks current={current === "vm" ? subject : undefined} />
        </header>
        <div class="page">
          <Connection />
          {current !== "inbox" && <AskBar />}
          <main id="main" tabIndex={-1}>
            <Page />
          </main>
        </div>
      </div>
      <Notice />
    </>
  );
}

/** VMs that a person can reach from every page. */
const LINKS_MAX = 20;

function VmLinks({ current }: { current: string | undefined }) {
  const shown = vms.value.slice(0, LINKS_MAX);
  if (shown.length === 0) return null;
  return (
    <nav class="vms" aria-label={text.sessions.table}>
      {shown.map(({ id, name, status }) => (
        <a key={id} href={hrefOf("vm", name)} aria-current={current === name ? "page" : undefined}>
          <span class={`dot ${status}`} title={status} /> {name}
        </a>
      ))}
      {vms.value.length > LINKS_MAX && (
        <a href={hrefOf("sessions")}>{text.sessions.allVms(vms.value.length)}</a>
      )}
    </nav>
  );
}

function Connection() {
  const state = connection.value;
  return (
    <div role="alert" class="connection">
      {state === "offline" && text.connection.offline}
      {state === "connecting" && text.connection.connecting}
    </div>
  );
}

/** The fragment of the address is the page, so a link cannot move the focus. */
function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

/** Page of a browser without a session. */
function SignedOut() {
  return (
    <>
      <main class="alone">
        <h1>{text.signIn.title}</h1>
        <p>{text.signIn.how}</p>
        <CommandLine command={text.signIn.command} />
      </main>
      <Notice />
    </>
  );
}
