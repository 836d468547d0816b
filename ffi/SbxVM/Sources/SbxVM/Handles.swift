/// Machines by number. Numbers are given once: a freed one stays invalid.
final class Handles: Sendable {
  private let table = Locked<(next: UInt64, machines: [UInt64: Machine])>((1, [:]))

  func add(_ machine: Machine) -> UInt64 {
    table.with { table in
      defer { table.next += 1 }
      table.machines[table.next] = machine
      return table.next
    }
  }

  func find(_ handle: UInt64) throws(Failure) -> Machine {
    guard let machine = table.with({ $0.machines[handle] }) else { throw unknown(handle) }
    return machine
  }

  /// Of callers at the same time, one gets the machine.
  func remove(_ handle: UInt64) throws(Failure) -> Machine {
    guard let machine = table.with({ $0.machines.removeValue(forKey: handle) }) else { throw unknown(handle) }
    return machine
  }

  private func unknown(_ handle: UInt64) -> Failure {
    Failure(.handle, "no machine has the handle \(handle): it was freed, or never given")
  }
}
