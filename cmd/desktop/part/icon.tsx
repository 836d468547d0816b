/** Icons: shapes of Lucide, drawn in the colour of the text beside them. */
import { h } from "preact";
import Activity from "lucide/dist/esm/icons/activity.mjs";
import Bell from "lucide/dist/esm/icons/bell.mjs";
import Bot from "lucide/dist/esm/icons/bot.mjs";
import Box from "lucide/dist/esm/icons/box.mjs";
import Cable from "lucide/dist/esm/icons/cable.mjs";
import Check from "lucide/dist/esm/icons/check.mjs";
import ChevronDown from "lucide/dist/esm/icons/chevron-down.mjs";
import ChevronRight from "lucide/dist/esm/icons/chevron-right.mjs";
import Clock from "lucide/dist/esm/icons/clock.mjs";
import Coins from "lucide/dist/esm/icons/coins.mjs";
import Cpu from "lucide/dist/esm/icons/cpu.mjs";
import Download from "lucide/dist/esm/icons/download.mjs";
import Ellipsis from "lucide/dist/esm/icons/ellipsis.mjs";
import FileText from "lucide/dist/esm/icons/file-text.mjs";
import Folder from "lucide/dist/esm/icons/folder.mjs";
import GitCompare from "lucide/dist/esm/icons/git-compare-arrows.mjs";
import Globe from "lucide/dist/esm/icons/globe.mjs";
import HeartPulse from "lucide/dist/esm/icons/heart-pulse.mjs";
import Inbox from "lucide/dist/esm/icons/inbox.mjs";
import Info from "lucide/dist/esm/icons/info.mjs";
import KeyRound from "lucide/dist/esm/icons/key-round.mjs";
import LayoutDashboard from "lucide/dist/esm/icons/layout-dashboard.mjs";
import Layers from "lucide/dist/esm/icons/layers.mjs";
import LinkIcon from "lucide/dist/esm/icons/link.mjs";
import Lock from "lucide/dist/esm/icons/lock.mjs";
import MessageSquare from "lucide/dist/esm/icons/message-square.mjs";
import Monitor from "lucide/dist/esm/icons/monitor.mjs";
import PanelLeft from "lucide/dist/esm/icons/panel-left.mjs";
import Pause from "lucide/dist/esm/icons/pause.mjs";
import Play from "lucide/dist/esm/icons/play.mjs";
import Plus from "lucide/dist/esm/icons/plus.mjs";
import Radar from "lucide/dist/esm/icons/radar.mjs";
import RefreshCw from "lucide/dist/esm/icons/refresh-cw.mjs";
import Scale from "lucide/dist/esm/icons/scale.mjs";
import ScrollText from "lucide/dist/esm/icons/scroll-text.mjs";
import Search from "lucide/dist/esm/icons/search.mjs";
import Settings from "lucide/dist/esm/icons/settings.mjs";
import ShieldCheck from "lucide/dist/esm/icons/shield-check.mjs";
import Square from "lucide/dist/esm/icons/square.mjs";
import Terminal from "lucide/dist/esm/icons/square-terminal.mjs";
import Triangle from "lucide/dist/esm/icons/triangle-alert.mjs";
import Waypoints from "lucide/dist/esm/icons/waypoints.mjs";
import Wrench from "lucide/dist/esm/icons/wrench.mjs";
import X from "lucide/dist/esm/icons/x.mjs";

/** One shape of an icon: its element and its attributes. */
type Shape = [string, Record<string, string>];

const ICONS = {
  activity: Activity,
  agent: Bot,
  allow: Check,
  alert: Triangle,
  bell: Bell,
  close: X,
  collapse: PanelLeft,
  costs: Coins,
  cpu: Cpu,
  credentials: KeyRound,
  detections: Radar,
  down: ChevronDown,
  download: Download,
  file: FileText,
  files: Folder,
  health: HeartPulse,
  images: Layers,
  inbox: Inbox,
  info: Info,
  link: LinkIcon,
  lock: Lock,
  logs: ScrollText,
  machine: Monitor,
  model: MessageSquare,
  more: Ellipsis,
  network: Globe,
  overview: LayoutDashboard,
  pause: Pause,
  play: Play,
  plus: Plus,
  ports: Cable,
  program: Terminal,
  refresh: RefreshCw,
  right: ChevronRight,
  rules: Scale,
  search: Search,
  settings: Settings,
  stop: Square,
  time: Clock,
  tools: Wrench,
  tree: Waypoints,
  verified: ShieldCheck,
  vm: Box,
  work: GitCompare,
} satisfies Record<string, unknown>;
export type IconName = keyof typeof ICONS;

/** An icon beside its word; alone it needs a control with a name. */
export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  const shapes: Shape[] = ICONS[name];
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true">
      {shapes.map(([element, attributes]) => h(element, attributes))}
    </svg>
  );
}
