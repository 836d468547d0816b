import Dispatch

/// Called once, on any thread.
typealias Done = @Sendable (Failure?) -> Void

/// A machine as its hypervisor runs it. All calls come on the machine's queue and return at once.
protocol Guest {
  func start(_ done: @escaping Done)
  /// Ends it; `Reports.ended` follows. Between two states it may do nothing: it is asked again when it is in the next one.
  func stop(_ done: @escaping Done)
  func pause(_ done: @escaping Done)
  func resume(_ done: @escaping Done)
  func save(to folder: String, _ done: @escaping Done)
  func restore(from folder: String, _ done: @escaping Done)
  /// Reports connections of the guest to a port of the host from now on.
  func listen(port: UInt32) throws(Failure)
  /// - Parameter done: gets a descriptor, which it owns
  func connect(port: UInt32, _ done: @escaping @Sendable (Result<Int32, Failure>) -> Void)
}

/// End of a machine.
struct End: Sendable {
  var code: Int32 = 0
  var signal: String? = nil
  /// why, where the hypervisor says it
  var message: String? = nil
}

/// What a guest tells its machine, on any thread.
struct Reports: Sendable {
  /// the guest has ended, for any reason; after a start that failed as well or not
  let ended: @Sendable (End) -> Void
  /// a connection of the guest to a port of the host, whose descriptor is the receiver's
  let connected: @Sendable (_ port: UInt32, _ descriptor: Int32) -> Void
}

/// What a host can do; the interface's JSON.
struct Abilities: Encodable {
  let hypervisor: String
  /// device of the guest's console
  let console: String
  let features: [String: Bool]
  /// why it lacks a feature, and what to do
  let lacks: [String: String]
}

/// A hypervisor. Each build of the library has one, ``Platform``.
protocol Hypervisor {
  static var abilities: Abilities { get }
  /// Makes a guest on its machine's queue.
  ///
  /// - Parameter console: a connected socket, which the guest owns
  static func guest(of spec: Spec, console: Int32, queue: DispatchQueue, reports: Reports) throws(Failure) -> any Guest
}
