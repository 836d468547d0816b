import { assertEquals } from "@std/assert";
import { obey } from "../../../../cmd/guest/activity/host.ts";

Deno.test("an order that fails does not end the orders; the end of the connection does, however it comes", async () => {
  for (const end of [() => Promise.resolve(null), () => Promise.reject(new Error("reset"))]) {
    const orders = ["first", "bad", "last"];
    const taken: unknown[] = [];
    const told: unknown[] = [];
    const { error } = console;
    console.error = (...words) => void told.push(words[0]);
    try {
      await obey({ next: () => orders.length > 0 ? Promise.resolve(orders.shift()) : end() }, (order) => {
        if (order === "bad") return Promise.reject(new Error("no such file"));
        taken.push(order);
        return Promise.resolve();
      });
    } finally {
      console.error = error;
    }
    assertEquals([taken, told], [["first", "last"], ["sbx-activity: an order failed:"]]);
  }
});
