/** A refusal whose message may be shown by the aggregator. */
export class OutboundRefusal extends Error {}
