/**
 * Feed of every event to collectors: syslog over TLS, Splunk, Elastic, OpenTelemetry
 * and files (docs/guides/siem.md).
 */
import { type Authorize, ElasticSender, HecSender } from "./http.ts";
import type { FeedSender } from "./feed.ts";
import { FileSender } from "./file.ts";
import { OtlpFeedSender } from "./otlp.ts";
import type { FeedSink } from "./schema.ts";
import { SyslogSender } from "./syslog.ts";

export { Feed, type FeedStanding, type FeedStatus } from "./feed.ts";
export type { SinkTrial } from "./trial.ts";

/** Makes the sender of a sink. */
export function senderOf({ form, url, ca_file, signals }: FeedSink, authorize?: Authorize): FeedSender {
  switch (form) {
    case "syslog":
      return new SyslogSender(url, ca_file);
    case "hec":
      return new HecSender(url, authorize);
    case "elastic":
      return new ElasticSender(url, authorize);
    case "otlp":
      return new OtlpFeedSender(url, signals, authorize);
    case "file":
      return new FileSender(url);
  }
}
