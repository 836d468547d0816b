/** OAuth of subscriptions, on the host. Loaded with the first login: it brings the OAuth client. */
export { beginLogin, type LoginWay, type WaitingLogin, waysOf } from "./oauth.ts";
