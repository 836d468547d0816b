import Foundation

/// Specification of one machine, as the interface's header describes it.
struct Spec: Decodable, Equatable {
  struct Disk: Decodable, Equatable {
    let path: String
    let readOnly: Bool

    enum CodingKeys: String, CodingKey, CaseIterable {
      case path
      case readOnly = "read_only"
    }

    init(from decoder: any Decoder) throws {
      let fields = try decoder.strictContainer(keyedBy: CodingKeys.self)
      path = try fields.path(.path)
      readOnly = try fields.decode(Bool.self, forKey: .readOnly)
    }
  }

  struct Share: Decodable, Equatable {
    let path: String
    let tag: String

    enum CodingKeys: String, CodingKey, CaseIterable {
      case path, tag
    }

    init(from decoder: any Decoder) throws {
      let fields = try decoder.strictContainer(keyedBy: CodingKeys.self)
      path = try fields.path(.path)
      tag = try fields.decode(String.self, forKey: .tag)
      guard !tag.isEmpty, tag.utf8.count <= 36 else { throw fields.invalid(.tag, "1 to 36 bytes") }
    }
  }

  /// folder of the sockets that the guest's connections go to
  let dir: String
  let cpus: Int
  /// MiB
  let memoryMb: UInt64
  let kernel: String
  let initrd: String
  let commandLine: String
  let disks: [Disk]
  let share: Share?
  /// vsock ports of the host; without them there is no vsock
  let ports: [UInt32]?
  let events: String
  let console: String
  /// folder for logs of a hypervisor's programs
  let logs: String
  let rosetta: Bool
  let nested: Bool

  enum CodingKeys: String, CodingKey, CaseIterable {
    case dir, cpus, kernel, initrd, disks, share, ports, events, console, logs, rosetta, nested
    case memoryMb = "memory_mb"
    case commandLine = "command_line"
  }

  init(from decoder: any Decoder) throws {
    let fields = try decoder.strictContainer(keyedBy: CodingKeys.self)
    dir = try fields.path(.dir)
    cpus = try fields.decode(Int.self, forKey: .cpus)
    memoryMb = try fields.decode(UInt64.self, forKey: .memoryMb)
    kernel = try fields.path(.kernel)
    initrd = try fields.path(.initrd)
    commandLine = try fields.decode(String.self, forKey: .commandLine)
    disks = try fields.decode([Disk].self, forKey: .disks)
    share = try fields.decodeIfPresent(Share.self, forKey: .share)
    ports = try fields.decodeIfPresent([UInt32].self, forKey: .ports)
    events = try fields.path(.events)
    console = try fields.path(.console)
    logs = try fields.path(.logs)
    rosetta = try fields.decodeIfPresent(Bool.self, forKey: .rosetta) ?? false
    nested = try fields.decodeIfPresent(Bool.self, forKey: .nested) ?? false
    guard (1...64).contains(cpus) else { throw fields.invalid(.cpus, "1 to 64") }
    guard (64...1_048_576).contains(memoryMb) else { throw fields.invalid(.memoryMb, "64 to 1048576") }
    guard disks.count <= 8 else { throw fields.invalid(.disks, "at most 8") }
    guard (ports ?? []).count <= 64 else { throw fields.invalid(.ports, "at most 64") }
  }

  /// - Throws: `spec.invalid`, with the path of the field
  static func read(_ json: Data) throws(Failure) -> Spec {
    do {
      return try JSONDecoder().decode(Spec.self, from: json)
    } catch let error as DecodingError {
      throw Failure(.spec, "invalid specification: \(error.said)")
    } catch {
      throw Failure(.spec, "invalid specification: \(error)")
    }
  }
}
