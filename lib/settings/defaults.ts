/**
 * defaults.toml: every built-in setting (contracts.md §3), embedded so that a program never runs without it.
 * `SBX_DEFAULTS_CONFIG` names a file to take instead.
 */
export const DEFAULTS_TOML = `
[settings.app]
name = "Application"
description = "How sbx itself behaves"

[settings.app.auto_update]
name = "Automatic updates"
description = "Install new versions of sbx as they come out"
type = "bool"
default = true
meta = { builtin = true }

[settings.app.notifications]
name = "Notifications"
description = "Tell the desktop about approvals that wait, findings and VMs that stop"
type = "bool"
default = true
meta = { builtin = true }

[settings.app.start_service_at_login]
name = "Start at login"
description = "Run the service from login on, so that the first VM starts sooner"
type = "bool"
default = false
meta = { builtin = true }

[settings.app.check_update]
name = "Check for updates"
description = "Look for a new version now"
action = "check_update"

[settings.appearance]
name = "Appearance"

[settings.appearance.theme]
name = "Theme"
description = "Colours of the desktop app"
type = "text"
default = "system"
meta = { builtin = true, choices = ["system", "light", "dark"], side_effect = "toggle_theme" }

[settings.appearance.font_size]
name = "Font size"
description = "Size of text in terminals, in pixels"
type = "number"
default = 14
meta = { builtin = true, min = 8, max = 32, step = 1, widget = "slider" }

[settings.appearance.reduced_motion]
name = "Reduced motion"
description = "No animations"
type = "bool"
default = false
meta = { builtin = true }

[settings.vm]
name = "Virtual machines"

[settings.vm.resources]
name = "Resources"
description = "What a new VM gets where its profile does not say"

[settings.vm.resources.cpu_count]
name = "CPUs"
description = "Virtual CPUs of a VM"
type = "number"
default = 2
meta = { builtin = true, min = 1, max = 8, step = 1, widget = "slider" }

[settings.vm.resources.ram_gb]
name = "Memory"
description = "Memory of a VM, in GiB"
type = "number"
default = 1
meta = { builtin = true, min = 1, max = 16, step = 1, widget = "slider" }

[settings.vm.resources.scratch_disk_size_gb]
name = "Scratch disk"
description = "Disk of a VM for what it writes outside its workspace, in GiB"
type = "number"
default = 4
meta = { builtin = true, min = 1, max = 128, step = 1 }

[settings.vm.resources.max_concurrent_vms]
name = "VMs at once"
description = "Most VMs that may run at the same time"
type = "number"
default = 10
meta = { builtin = true, min = 1, max = 20, step = 1 }

[settings.vm.resources.retention_days]
name = "Keep sessions"
description = "Days that the record of a VM which is gone is kept"
type = "number"
default = 30
meta = { builtin = true, min = 1, max = 3650, step = 1 }

[settings.ledger]
name = "Ledger"
description = "The record of what programs in VMs did"

[settings.ledger.on_full]
name = "When it cannot be written"
description = "pause: the VM stands still until the record can be written again; block: it runs on, and everything that needs a record is refused"
type = "text"
default = "pause"
meta = { builtin = true, choices = ["pause", "block"] }

[settings.ledger.max_size_mb]
name = "Largest size"
description = "MiB at which a session's ledger counts as full; 0 is no limit but the disk"
type = "number"
default = 0
meta = { builtin = true, min = 0, max = 1048576, step = 1 }

[settings.network]
name = "Network"
description = "How what VMs send reaches the world; what they may send is a matter of rules"
collapsed = true

[settings.network.dns_resolvers]
name = "DNS resolvers"
description = "Addresses that names are asked of, each with a port if it is not 53, such as 192.0.2.1, 192.0.2.1:5353 or [2001:db8::1]:5353; empty is the host's own"
type = "string_list"
default = []
meta = { builtin = true }

[settings.network.extra_ca_file]
name = "Further certificate authorities"
description = "Path of a PEM file on the host, with authorities that upstream servers may have besides those of the system"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.model_price_file]
name = "Prices of models"
description = "Path of a JSON file on the host with what models cost, instead of the built-in table"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.upstream_overrides]
name = "Where names lead"
description = "NAME=ADDRESS:PORT, or NAME:PORT=ADDRESS:PORT for one port of it, for tests and laboratories: the name is connected to there, and nowhere else"
type = "string_list"
default = []
meta = { builtin = true }

[settings.vm.snapshots]
name = "Snapshots"
collapsed = true

[settings.vm.snapshots.auto_interval]
name = "Interval"
description = "Seconds between automatic snapshots of a workspace"
type = "number"
default = 300
meta = { builtin = true, min = 30, max = 3600, step = 30 }

[settings.vm.snapshots.auto_max]
name = "Automatic snapshots"
description = "Most automatic snapshots that a VM keeps"
type = "number"
default = 10
meta = { builtin = true, min = 1, max = 100, step = 1 }

[settings.vm.snapshots.manual_max]
name = "Manual snapshots"
description = "Most snapshots that a person or an agent may keep for a VM"
type = "number"
default = 12
meta = { builtin = true, min = 1, max = 100, step = 1 }

[settings.vm.environment]
name = "Environment"
description = "What programs in a VM find; nothing secret belongs here"

[settings.vm.environment.shell]
name = "Shell"

[settings.vm.environment.shell.term]
name = "TERM"
description = "Terminal type in a VM"
type = "text"
default = "xterm-256color"
meta = { builtin = true, env_vars = ["TERM"] }

[settings.vm.environment.shell.lang]
name = "LANG"
description = "Language and encoding in a VM"
type = "text"
default = "C.UTF-8"
meta = { builtin = true, env_vars = ["LANG"] }

[settings.vm.environment.shell.bashrc]
name = ".bashrc"
description = "Read by each interactive shell in a VM"
type = "file"
default = { path = "/root/.bashrc", content = "" }
meta = { builtin = true, filetype = "bash" }

[settings.vm.environment.shell.tmux_conf]
name = ".tmux.conf"
description = "Read by tmux in a VM"
type = "file"
default = { path = "/root/.tmux.conf", content = "" }
meta = { builtin = true, filetype = "conf" }

[settings.vm.environment.ssh]
name = "SSH"

[settings.vm.environment.ssh.public_key]
name = "Public key"
description = "Your SSH public key, for programs in a VM that show or deploy it"
type = "text"
default = ""
meta = { builtin = true, validator = "ssh_public_key", env_vars = ["SBX_SSH_PUBLIC_KEY"] }

[settings.vm.environment.proxy.no_proxy]
name = "No proxy"
description = "Hosts that programs in a VM reach without a proxy of their own"
type = "string_list"
default = []
meta = { builtin = true, widget = "domain_chips", env_vars = ["NO_PROXY", "no_proxy"] }

[settings.vm.environment.dev.ports]
name = "Development ports"
description = "Ports that development servers in a VM are asked to use"
type = "int_list"
default = [3000, 5173, 8000, 8080]
meta = { builtin = true, min = 1, max = 65535, env_vars = ["SBX_DEV_PORTS"] }

[settings.repository]
name = "Repositories"

[settings.repository.git]
name = "Git"

[settings.repository.git.identity]
name = "Identity"
description = "Who commits that are made in a VM are by"

[settings.repository.git.identity.author_name]
name = "Name"
description = "Author and committer of commits"
type = "text"
default = ""
meta = { builtin = true, env_vars = ["GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"] }

[settings.repository.git.identity.author_email]
name = "E-mail"
description = "E-mail address in commits"
type = "text"
default = ""
meta = { builtin = true, validator = "email", env_vars = ["GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"] }

[settings.telemetry]
name = "Telemetry"
description = "Findings and counters for a collector of your own; off unless you turn it on"
collapsed = true

[settings.telemetry.enabled]
name = "Send telemetry"
description = "Send findings and counters to the endpoint below"
type = "bool"
default = false
meta = { builtin = true }

[settings.telemetry.endpoint]
name = "Endpoint"
description = "URL of an OpenTelemetry collector"
type = "text"
default = ""
enabled_by = "telemetry.enabled"
meta = { builtin = true, validator = "url" }

[settings.telemetry.api_key]
name = "API key"
description = "Sent to the endpoint as bearer token; never to a VM"
type = "apikey"
default = ""
enabled_by = "telemetry.enabled"
meta = { builtin = true, mask = true }

[settings.telemetry.password]
name = "Password"
description = "For an endpoint that asks for basic authentication; never sent to a VM"
type = "password"
default = ""
enabled_by = "telemetry.enabled"
meta = { builtin = true, mask = true }

[settings.telemetry.latency_buckets]
name = "Latency buckets"
description = "Upper bounds of latency histograms, in seconds"
type = "float_list"
default = [0.005, 0.05, 0.5, 5.0]
enabled_by = "telemetry.enabled"
meta = { builtin = true, min = 0 }
`;
