/** Built-in settings of everything but VMs, in TOML; `vm.ts` has those. */

/** Settings of the record, the network, repositories, alerts and telemetry. */
export const HOST_DEFAULTS = `
[settings.ledger]
name = "Ledger"
description = "Record of the activity of programs in VMs"

[settings.ledger.on_full]
name = "When it cannot be written"
description = "pause: the VM pauses until the record can be written again; block: it keeps running, and everything that needs a record is refused"
type = "text"
default = "pause"
meta = { builtin = true, choices = ["pause", "block"] }

[settings.ledger.max_size_mb]
name = "Maximum size"
description = "Size at which a session's ledger counts as full, in MiB; 0 means limited only by the disk"
type = "number"
default = 1024
meta = { builtin = true, min = 0, max = 1048576, step = 1 }

[settings.ledger.max_total_mb]
name = "Maximum size of all records"
description = "Size of the records of all sessions together, in MiB, above which records of ended sessions are removed; 0 means limited only by the disk. Records that corp holds, or that its collectors lack, stay"
type = "number"
default = 0
meta = { builtin = true, min = 0, max = 1073741824, step = 1 }

[settings.ledger.remove_first]
name = "Order of removal"
description = "oldest: records of the sessions that ended first go first; largest: the largest records do"
type = "text"
default = "oldest"
meta = { builtin = true, choices = ["oldest", "largest"] }

[settings.ledger.export_dir]
name = "Export before removal"
description = "Absolute path of a folder on the host to which each record is copied, and verified there, before it is removed; a record that cannot be copied stays. Empty copies none"
type = "text"
default = ""
meta = { builtin = true }

[settings.network]
name = "Network"
description = "How VM traffic reaches its destination; rules decide which traffic is allowed"
collapsed = true

[settings.network.dns_resolvers]
name = "DNS resolvers"
description = "Addresses of DNS resolvers, with a port unless it is 53, such as 192.0.2.1, 192.0.2.1:5353 or [2001:db8::1]:5353; empty uses the host's resolvers"
type = "string_list"
default = []
meta = { builtin = true }

[settings.network.extra_ca_file]
name = "Additional certificate authorities"
description = "Path of a PEM file on the host with certificate authorities for upstream servers, in addition to the system's own"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.upstream_proxy]
name = "Proxy"
description = "Proxy through which this machine reaches the network, for VMs and for sbx itself: http://, https:// or socks5:// with HOST:PORT; pac+ and the address of a PAC file, such as pac+https://HOST/proxy.pac; system for the one of the system's settings; empty takes HTTPS_PROXY, HTTP_PROXY and NO_PROXY of the service's environment; none uses no proxy"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.no_proxy]
name = "Hosts without a proxy"
description = "Names (with those below them), addresses and networks that are reached without network.upstream_proxy, such as example.com, 192.0.2.0/24 or host.example.com:8080"
type = "string_list"
default = []
meta = { builtin = true }

[settings.network.upstream_proxy_auth_file]
name = "Proxy password"
description = "Path of a file of mode 0600 on the host with USER:PASSWORD for network.upstream_proxy"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.upstream_proxy_auth_program]
name = "Proxy login program"
description = "Path of a program on the host that prints a token of Negotiate (Kerberos) for network.upstream_proxy, whose host is its argument; it is run for each connection"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.upstream_proxy_by_name]
name = "Names at the proxy"
description = "Ask the proxy for the names of VMs' upstreams, where it accepts no addresses; it resolves them itself then, also to private addresses"
type = "bool"
default = false
meta = { builtin = true }

[settings.network.http2]
name = "HTTP/2 for VMs"
description = "Offer HTTP/2 to the programs of VMs, which gRPC needs; without it they get HTTP/1.1. VMs use a change from their next start"
type = "bool"
default = true
meta = { builtin = true }

[settings.network.websocket_messages]
name = "Messages of WebSockets"
description = "Record the messages of WebSockets in the event of their upgrade, without secrets: the first 256, and 64 KiB of their text. VMs use a change from their next start"
type = "bool"
default = false
meta = { builtin = true }

[settings.network.mcp_logins]
name = "Logins at MCP servers"
description = "Allow sbx mcp login; where corp forces it to false, earlier logins are not used either"
type = "bool"
default = true
meta = { builtin = true }

[settings.network.model_price_file]
name = "Model prices"
description = "Path of a JSON file on the host with model prices, added to the built-in table; its prices win"
type = "text"
default = ""
meta = { builtin = true }

[settings.network.upstream_overrides]
name = "Upstream overrides"
description = "NAME=ADDRESS:PORT, or NAME:PORT=ADDRESS:PORT for one port, for tests and labs: connections to the name go to this address only"
type = "string_list"
default = []
meta = { builtin = true }

[settings.network.host_services]
name = "Services of this machine"
description = "Let VMs reach the services of this machine that their profile names in [host]; VMs use a change from their next start"
type = "bool"
default = true
meta = { builtin = true }

[settings.repository]
name = "Repositories"

[settings.repository.git]
name = "Git"

[settings.repository.git.identity]
name = "Identity"
description = "Author of commits made in a VM"

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

[settings.alerts]
name = "Alerts"
description = "Findings that people hear of at once: on the desktop, and by a webhook"
collapsed = true

[settings.alerts.severity]
name = "Severity"
description = "Least severity of findings that are shown on the desktop and sent to the webhook"
type = "text"
default = "high"
meta = { builtin = true, choices = ["info", "low", "medium", "high", "critical"] }

[settings.alerts.webhook_file]
name = "Webhook"
description = "Path of a file with the https URL that gets findings; the URL is a secret, so only you may read the file (chmod 600)"
type = "text"
default = ""
meta = { builtin = true }

[settings.alerts.webhook_form]
name = "Form of the webhook"
description = "slack and teams: a message of theirs; json: the finding's record"
type = "text"
default = "json"
meta = { builtin = true, choices = ["json", "slack", "teams"] }

[settings.telemetry]
name = "Telemetry"
description = "Findings sent to your own collector; off by default"
collapsed = true

[settings.telemetry.enabled]
name = "Send telemetry"
description = "Send findings to the endpoint"
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

[settings.telemetry.credential_ref]
name = "Credential"
description = "Ref of the credential for the endpoint, from sbx credentials add mcp --host HOST; sent as a bearer token, or as the password of the user"
type = "text"
default = ""
enabled_by = "telemetry.enabled"
meta = { builtin = true, validator = "credential_ref" }

[settings.telemetry.user]
name = "User"
description = "User for an endpoint with basic authentication; empty sends the credential as a bearer token"
type = "text"
default = ""
enabled_by = "telemetry.enabled"
meta = { builtin = true }

[settings.telemetry.latency_buckets]
name = "Latency buckets"
description = "Upper bounds of latency histograms, in seconds"
type = "float_list"
default = [0.005, 0.05, 0.5, 5.0]
enabled_by = "telemetry.enabled"
meta = { builtin = true, hidden = true, min = 0 }
`;

/** Settings of sbx itself and of its desktop app. */
export const APP_DEFAULTS = `
[settings.app]
name = "Application"
description = "Behaviour of sbx itself"

[settings.app.auto_update]
name = "Check for updates automatically"
description = "Check the release channel on a schedule for new, deprecated and revoked releases; nothing is installed automatically"
type = "bool"
default = true
meta = { builtin = true }

[settings.app.notifications]
name = "Notifications"
description = "Show desktop notifications of events that wait for a person and of findings, where there is a desktop"
type = "bool"
default = true
meta = { builtin = true }

[settings.app.start_service_at_login]
name = "Start at login"
description = "Start the service at login, so that the first VM starts sooner and asks reach the tray"
type = "bool"
default = false
meta = { builtin = true }

[settings.app.e2b]
name = "Serve programs written for E2B"
description = "Let sbx e2b give programs VMs by E2B's API, with a key of its own"
type = "bool"
default = false
meta = { builtin = true }

[settings.app.check_update]
name = "Check for updates"
description = "Check for a new version now"
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
description = "Terminal font size, in pixels"
type = "number"
default = 14
meta = { builtin = true, min = 8, max = 32, step = 1, widget = "slider" }

[settings.appearance.reduced_motion]
name = "Reduced motion"
description = "Disable animations"
type = "bool"
default = false
meta = { builtin = true }
`;
