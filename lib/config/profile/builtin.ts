/**
 * Built-in profiles, files that users can copy as the start of their own: for people, for agents, and locked
 * ones (docs/guides/agents.md). scripts/profile_rules.ts writes the rules of agents.
 */
import code from "./builtin/code.toml" with { type: "text" };
import coWork from "./builtin/co-work.toml" with { type: "text" };
import builder from "./builtin/builder.toml" with { type: "text" };
import docker from "./builtin/docker.toml" with { type: "text" };
import locked from "./builtin/locked.toml" with { type: "text" };
import claude from "./builtin/claude.toml" with { type: "text" };
import codex from "./builtin/codex.toml" with { type: "text" };
import gemini from "./builtin/gemini.toml" with { type: "text" };
import opencode from "./builtin/opencode.toml" with { type: "text" };
import opencodeLocal from "./builtin/opencode-local.toml" with { type: "text" };
import cline from "./builtin/cline.toml" with { type: "text" };
import cn from "./builtin/cn.toml" with { type: "text" };
import copilot from "./builtin/copilot.toml" with { type: "text" };
import kilo from "./builtin/kilo.toml" with { type: "text" };
import pi from "./builtin/pi.toml" with { type: "text" };
import qwen from "./builtin/qwen.toml" with { type: "text" };

/** Id → profile.toml of each built-in profile (docs/design/contracts/04-profiles.md §4). */
export const BUILTIN_PROFILES: ReadonlyMap<string, string> = new Map([
  ["code", code],
  ["co-work", coWork],
  ["builder", builder],
  ["docker", docker],
  ["locked", locked],
  ["claude", claude],
  ["codex", codex],
  ["gemini", gemini],
  ["opencode", opencode],
  ["opencode-local", opencodeLocal],
  ["cline", cline],
  ["cn", cn],
  ["copilot", copilot],
  ["kilo", kilo],
  ["pi", pi],
  ["qwen", qwen],
]);
