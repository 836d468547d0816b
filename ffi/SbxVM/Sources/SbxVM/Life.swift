/// What changes in a machine's life. Only its queue touches it.
final class Life {
  /// Most connections of a guest at once, each of which takes a thread; further ones are closed.
  private static let bridgeLimit = 1024

  private(set) var state = Machine.State.created
  var guest: (any Guest)?
  var events: Events?
  /// calls that fail when the machine ends
  var pending: [Reply<Void>] = []
  /// calls that wait for its end
  var ends: [Reply<Void>] = []
  private var bridges: [ObjectIdentifier: Bridge] = [:]

  func enter(_ state: Machine.State) {
    self.state = state
    if state != .stopped { events?.write(.init(state: state.rawValue)) }
  }

  /// The machine has ended: everybody who waits is told.
  func end(_ end: End) {
    guard state != .stopped else { return }
    enter(.stopped)
    guest = nil
    bridges.values.forEach { $0.cancel() }
    events?.write(
      .init(state: state.rawValue, code: end.code, signal: end.signal, message: end.message))
    events = nil
    let why = end.message.map { ": \($0)" } ?? ""
    pending.forEach { $0.settle(.failure(Failure(.ended, "the machine has ended\(why)"))) }
    ends.forEach { $0.settle(.success(())) }
    pending = []
    ends = []
  }

  func forget(_ reply: Reply<Void>) {
    pending.removeAll { $0 === reply }
  }

  /// Copies between two descriptors, which it owns.
  func bridge(_ one: Int32, _ other: Int32, owner: Confined<Life>) {
    guard state != .stopped, bridges.count < Self.bridgeLimit else {
      UnixSocket.close(one)
      UnixSocket.close(other)
      return
    }
    let bridge = Bridge(one, other)
    bridges[ObjectIdentifier(bridge)] = bridge
    bridge.start { owner.async { $0.bridges[ObjectIdentifier(bridge)] = nil } }
  }

  func illegal(_ action: String) -> Failure {
    if state == .stopped { return Failure(.ended, "\(action): the machine has ended") }
    return Failure(.state, "\(action): the machine is \(state.rawValue)")
  }
}
