import Foundation
import Virtualization

/// A saved machine in a folder: the framework's file, which only this Mac can read, and the identity that belongs to it.
struct SavedMachine {
  let folder: String

  private var state: URL { URL(fileURLWithPath: "\(folder)/state") }
  private var identity: URL { URL(fileURLWithPath: "\(folder)/identity") }

  func identifier() throws(Failure) -> VZGenericMachineIdentifier {
    guard let data = try? Data(contentsOf: identity), let found = VZGenericMachineIdentifier(dataRepresentation: data) else {
      throw Failure(.image, "\(identity.path) is missing or damaged")
    }
    return found
  }

  func save(_ machine: VZVirtualMachine, _ identifier: VZGenericMachineIdentifier, _ done: @escaping Done) {
    do {
      try identifier.dataRepresentation.write(to: identity)
    } catch {
      return done(Failure(.image, "\(identity.path): \(error.localizedDescription)"))
    }
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      if #available(macOS 14, *) {
        return machine.saveMachineStateTo(url: state) { error in
          done(error.map { Failure(.hypervisor, "save: \($0.localizedDescription)") })
        }
      }
    #endif
    done(Failure(.feature, "saving machines needs macOS 14 on Apple silicon"))
  }

  func restore(_ machine: VZVirtualMachine, _ done: @escaping Done) {
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      if #available(macOS 14, *) {
        return machine.restoreMachineStateFrom(url: state) { error in
          done(error.map { Failure(.image, "restore: \($0.localizedDescription)") })
        }
      }
    #endif
    done(Failure(.feature, "saving machines needs macOS 14 on Apple silicon"))
  }
}

extension VZVirtualMachineConfiguration {
  /// Why the framework saves no machine with these devices.
  var lackOfSaving: String? {
    guard #available(macOS 14, *) else { return "saving machines needs macOS 14" }
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      do {
        try validateSaveRestoreSupport()
        return nil
      } catch {
        return "the framework does not save such machines: \(error.localizedDescription)"
      }
    #else
      return "saving machines needs Apple silicon"
    #endif
  }
}
