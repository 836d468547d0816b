/**
 * Carries out a host's orders until it leaves; another one will come. A failed order is reported, and the
 * next one taken.
 *
 * @param orders null: the host has left
 */
export async function obey(
  orders: { next(): Promise<unknown | null> },
  take: (order: unknown) => Promise<void>,
): Promise<void> {
  const next = () => orders.next().catch(() => null);
  for (let order = await next(); order !== null; order = await next()) {
    await take(order).catch((error) => console.error("sbx-activity: an order failed:", error));
  }
}
