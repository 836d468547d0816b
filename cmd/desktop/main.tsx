/** The desktop page: signs in, follows the service, and draws (docs/guides/desktop.md). */
import { render } from "preact";
import { sessionKey, signIn } from "./api/sign_in.ts";
import { followLook } from "./app/look.ts";
import { followAsks } from "./app/notify.tsx";
import { followAddress } from "./app/route.ts";
import { Shell } from "./app/shell.tsx";
import { follow } from "./store/live.ts";
import { connection, notice } from "./store/store.ts";

const refused = await signIn();
if (refused) notice.value = { text: refused, isError: true };
if (sessionKey() === null) connection.value = "signed-out";
followAddress();
followLook();
followAsks();
render(<Shell />, document.getElementById("app")!);
follow();
