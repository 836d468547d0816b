/** The three forms of a program that a login starts; each says in a comment who wrote it. */

/** A program with its environment. */
export interface Started {
  program: string;
  env: Record<string, string>;
}

/** The line by which sbx knows its own files. */
export const MARK = "Written by sbx for the setting app.start_service_at_login; false removes it.";

/** Unit of a systemd user manager. VMs outlive the service: a restart finds them again. */
export function systemdUnit({ program, env }: Started): string {
  const quoted = (text: string) => `"${text.replace(/["\\]/g, "\\$&").replaceAll("%", "%%")}"`;
  return [
    `# ${MARK}`,
    "[Unit]",
    "Description=sbx, virtual machines for agents",
    "",
    "[Service]",
    ...Object.entries(env).map(([name, value]) => `Environment=${quoted(`${name}=${value}`)}`),
    `ExecStart=${quoted(program).replaceAll("$", "$$$$")}`,
    "KillMode=process",
    "Restart=on-failure",
    "UMask=0077",
    "",
    "[Install]",
    "WantedBy=default.target",
    "",
  ].join("\n");
}

/** Entry of a desktop's autostart folder. Its command line is quoted twice: as an argument, and as a string of the file. */
export function desktopEntry({ program, env }: Started): string {
  const quoted = (text: string) =>
    `"${text.replace(/["`$\\]/g, "\\$&").replaceAll("%", "%%")}"`.replaceAll("\\", "\\\\");
  const words = ["env", ...Object.entries(env).map(([name, value]) => `${name}=${value}`), program];
  return [
    `# ${MARK}`,
    "[Desktop Entry]",
    "Type=Application",
    "Name=sbx",
    "Comment=Starts the service of sbx",
    `Exec=${words.map(quoted).join(" ")}`,
    "NoDisplay=true",
    "Terminal=false",
    "",
  ].join("\n");
}

/** Agent of launchd. */
export function launchAgent(label: string, { program, env }: Started): string {
  const escaped = (text: string) =>
    text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const string = (text: string) => `<string>${escaped(text)}</string>`;
  return `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<!-- ${MARK} -->
<plist version="1.0">
<dict>
  <key>Label</key>
  ${string(label)}
  <key>ProgramArguments</key>
  <array>
    ${string(program)}
  </array>
  <key>EnvironmentVariables</key>
  <dict>
${
    Object.entries(env).map(([name, value]) => `    <key>${escaped(name)}</key>\n    ${string(value)}\n`)
      .join("")
  }  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>AbandonProcessGroup</key>
  <true/>
</dict>
</plist>
`;
}
