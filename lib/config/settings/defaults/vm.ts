/**
 * Built-in settings of VMs, in TOML: resources, abilities, templates, cache, snapshots, guest environment.
 */
export const VM_DEFAULTS = `
[settings.vm]
name = "Virtual machines"

[settings.vm.resources]
name = "Resources"
description = "Resources of a new VM, unless its profile sets them"

[settings.vm.resources.cpu_count]
name = "CPUs"
description = "Virtual CPUs of a VM"
type = "number"
default = 2
meta = { builtin = true, min = 1, max = 64, step = 1, widget = "slider" }

[settings.vm.resources.ram_gb]
name = "Memory"
description = "Memory of a VM, in GiB"
type = "number"
default = 1
meta = { builtin = true, min = 1, max = 256, step = 1, widget = "slider" }

[settings.vm.resources.scratch_disk_size_gb]
name = "Scratch disk"
description = "Disk of a new VM for writes outside its workspace, in GiB; sparse on the host"
type = "number"
default = 20
meta = { builtin = true, min = 1, max = 1024, step = 1 }

[settings.vm.resources.max_concurrent_vms]
name = "Concurrent VMs"
description = "Maximum number of VMs running at the same time"
type = "number"
default = 10
meta = { builtin = true, min = 1, max = 20, step = 1 }

[settings.vm.resources.max_ram_gb]
name = "Memory of all VMs"
description = "Memory of all running VMs together, in GiB; 0: no limit"
type = "number"
default = 0
meta = { builtin = true, min = 0, max = 4096, step = 1 }

[settings.vm.resources.retention_days]
name = "Session retention"
description = "Days to keep the record of a deleted VM"
type = "number"
default = 30
meta = { builtin = true, min = 1, max = 3650, step = 1 }

[settings.vm.abilities]
name = "Abilities"
description = "Abilities of VMs whose profile does not set them; a host without a required ability refuses to start the VM"
collapsed = true

[settings.vm.abilities.rosetta]
name = "Rosetta"
description = "Run x86_64 programs in arm64 VMs, on Macs with Apple silicon"
type = "bool"
default = false
meta = { builtin = true }

[settings.vm.abilities.nested_virtualization]
name = "Nested virtualization"
description = "Run virtual machines in VMs, on Macs with an M3 or newer and macOS 15"
type = "bool"
default = false
meta = { builtin = true }

[settings.vm.abilities.user_namespaces]
name = "User namespaces"
description = "User namespaces without root in VMs, for the sandboxes of browsers and bubblewrap, and rootless containers"
type = "bool"
default = false
meta = { builtin = true }

[settings.vm.templates]
name = "Templates"
description = "Saved memory of booted guests, from which later VMs start"

[settings.vm.templates.enabled]
name = "Start from templates"
description = "Start VMs from a template, and make missing templates in the background"
type = "bool"
default = true
meta = { builtin = true }

[settings.vm.templates.max_gb]
name = "Disk space"
description = "Disk space of all templates, in GiB; the oldest are removed first"
type = "number"
default = 4
meta = { builtin = true, min = 1, max = 64, step = 1 }

[settings.vm.templates.spare]
name = "Start one ahead"
description = "Keep one machine ready for the next VM, for ten minutes after a start; it uses its memory meanwhile"
type = "bool"
default = true
enabled_by = "vm.templates.enabled"
meta = { builtin = true }

[settings.vm.idle_suspend_minutes]
name = "Suspend idle VMs"
description = "Minutes without use after which a VM is suspended to disk until its next use; 0: never"
type = "number"
default = 0
meta = { builtin = true, min = 0, max = 1440, step = 1 }

[settings.vm.live_folders]
name = "Live folders"
description = "VMs may share folders of this host read-write (sbx create --live)"
type = "bool"
default = true
meta = { builtin = true }

[settings.vm.cache]
name = "Shared cache"
description = "Downloads of package managers, kept on this host for the VMs of profiles with [cache]"

[settings.vm.cache.enabled]
name = "Share downloads"
description = "Serve artefacts that another VM has downloaded, once their digest is verified; a change applies from a VM's next start"
type = "bool"
default = true
meta = { builtin = true }

[settings.vm.cache.max_gb]
name = "Disk space"
description = "Disk space of the cache, in GiB; the least recently used artefacts are removed first"
type = "number"
default = 10
enabled_by = "vm.cache.enabled"
meta = { builtin = true, min = 1, max = 1024, step = 1 }

[settings.vm.snapshots]
name = "Snapshots"
description = "Saved states of workspaces, to go back to"
collapsed = true

[settings.vm.snapshots.enabled]
name = "Automatic snapshots"
description = "Take snapshots of running VMs' workspaces after changes"
type = "bool"
default = true
meta = { builtin = true }

[settings.vm.snapshots.auto_interval]
name = "Interval"
description = "Seconds between automatic snapshots of a workspace"
type = "number"
default = 300
enabled_by = "vm.snapshots.enabled"
meta = { builtin = true, min = 30, max = 3600, step = 30 }

[settings.vm.snapshots.auto_max]
name = "Automatic snapshots kept"
description = "Maximum number of automatic snapshots per VM; the oldest are removed"
type = "number"
default = 10
meta = { builtin = true, min = 1, max = 100, step = 1 }

[settings.vm.snapshots.manual_max]
name = "Manual snapshots"
description = "Maximum number of manual snapshots per VM, made by a person or an agent"
type = "number"
default = 12
meta = { builtin = true, min = 1, max = 100, step = 1 }

[settings.vm.environment]
name = "Environment"
description = "Environment of programs in a VM; do not put secrets here"

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
description = "Your SSH public key, for programs in a VM that display or deploy it"
type = "text"
default = ""
meta = { builtin = true, validator = "ssh_public_key", env_vars = ["SBX_SSH_PUBLIC_KEY"] }

[settings.vm.environment.proxy.no_proxy]
name = "No proxy"
description = "Hosts that programs in a VM reach without their proxy (NO_PROXY)"
type = "string_list"
default = []
meta = { builtin = true, widget = "domain_chips", env_vars = ["NO_PROXY", "no_proxy"] }

[settings.vm.environment.dev.ports]
name = "Development ports"
description = "Ports of development servers in a VM, forwarded to this host once one listens"
type = "int_list"
default = [3000, 5173, 8000, 8080]
meta = { builtin = true, min = 1, max = 65535, env_vars = ["SBX_DEV_PORTS"] }
`;
