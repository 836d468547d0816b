/**
 * Built-in settings of sbx itself and of its desktop app; settings that need the app are hidden until it
 * exists.
 */
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
description = "Show a desktop notification of each event that waits for a person, where there is a desktop"
type = "bool"
default = true
meta = { builtin = true }

[settings.app.start_service_at_login]
name = "Start at login"
description = "Start the service at login, so that the first VM starts sooner and asks reach the tray"
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
