import Virtualization

/// Programs for x86_64 in arm64 guests.
enum Rosetta {
  static var lack: String? {
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      switch VZLinuxRosettaDirectoryShare.availability {
      case .installed: return nil
      case .notInstalled: return "Rosetta is not installed: softwareupdate --install-rosetta"
      case .notSupported: return "Rosetta is not supported on this Mac"
      @unknown default: return "Rosetta is in a state that this library does not know"
      }
    #else
      return "Rosetta needs Apple silicon"
    #endif
  }

  /// Folder with Rosetta, which the guest mounts and registers with binfmt_misc.
  static func device() throws -> VZDirectorySharingDeviceConfiguration {
    if let lack { throw Failure(.feature, lack) }
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      let device = VZVirtioFileSystemDeviceConfiguration(tag: "rosetta")
      device.share = try VZLinuxRosettaDirectoryShare()
      return device
    #endif
  }
}

/// Machines in machines.
enum Nested {
  static var lack: String? {
    guard #available(macOS 15, *) else { return "nested virtualization needs macOS 15" }
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      return VZGenericPlatformConfiguration.isNestedVirtualizationSupported
        ? nil : "nested virtualization needs an M3 or newer"
    #else
      return "nested virtualization needs Apple silicon"
    #endif
  }

  static func enable(on platform: VZGenericPlatformConfiguration) throws(Failure) {
    if let lack { throw Failure(.feature, lack) }
    #if arch(arm64) || SBX_TYPES_OF_EVERY_MAC
      if #available(macOS 15, *) { platform.isNestedVirtualizationEnabled = true }
    #endif
  }
}
