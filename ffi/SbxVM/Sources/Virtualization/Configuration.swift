import Foundation
import Virtualization

extension Spec {
  /// The framework's configuration of this machine.
  ///
  /// - Parameters:
  ///   - console: socket of the guest's serial console
  ///   - identifier: the identity of the saved machine that this one goes on as
  func configuration(
    console: FileHandle, identifier: VZGenericMachineIdentifier
  ) throws(Failure) -> VZVirtualMachineConfiguration {
    try requireFit()
    do {
      let configuration = VZVirtualMachineConfiguration()
      configuration.cpuCount = cpus
      configuration.memorySize = memoryMb * 1024 * 1024
      let boot = VZLinuxBootLoader(kernelURL: URL(fileURLWithPath: kernel))
      boot.initialRamdiskURL = URL(fileURLWithPath: initrd)
      boot.commandLine = commandLine
      configuration.bootLoader = boot
      let platform = VZGenericPlatformConfiguration()
      platform.machineIdentifier = identifier
      if nested { try Nested.enable(on: platform) }
      configuration.platform = platform
      configuration.storageDevices = try disks.map { try $0.device() }
      configuration.addDevices(console: console, vsock: ports != nil)
      if let share { configuration.directorySharingDevices.append(share.device()) }
      if rosetta { configuration.directorySharingDevices.append(try Rosetta.device()) }
      try configuration.validate()
      return configuration
    } catch let failure as Failure {
      throw failure
    } catch {
      throw Failure(.spec, "the framework refuses this machine: \(error.localizedDescription)")
    }
  }
}

extension Spec {
  /// Says of what the framework would refuse without a reason what it is.
  private func requireFit() throws(Failure) {
    typealias Limits = VZVirtualMachineConfiguration
    let (least, most) = (Limits.minimumAllowedMemorySize, Limits.maximumAllowedMemorySize)
    guard (least...most).contains(memoryMb * 1024 * 1024) else {
      throw Failure(.spec, "this Mac gives a machine \(least >> 20) to \(most >> 20) MiB of memory, not \(memoryMb)")
    }
    guard (Limits.minimumAllowedCPUCount...Limits.maximumAllowedCPUCount).contains(cpus) else {
      throw Failure(.spec, "this Mac gives a machine at most \(Limits.maximumAllowedCPUCount) processors, not \(cpus)")
    }
    // The boot loader unpacks nothing: a packed kernel starts, and nothing ever happens.
    #if arch(arm64)
      let (magic, place) = ("ARM\u{64}", UInt64(56))
    #else
      let (magic, place) = ("HdrS", UInt64(0x202))
    #endif
    guard let file = FileHandle(forReadingAtPath: kernel) else { throw Failure(.spec, "\(kernel) cannot be read") }
    try? file.seek(toOffset: place)
    guard (try? file.read(upToCount: 4)) == Data(magic.utf8) else {
      throw Failure(.spec, "\(kernel) is no kernel that a Mac of this architecture boots")
    }
  }
}

extension VZVirtualMachineConfiguration {
  /// The devices of every machine.
  func addDevices(console: FileHandle, vsock: Bool) {
    entropyDevices = [VZVirtioEntropyDeviceConfiguration()]
    memoryBalloonDevices = [VZVirtioTraditionalMemoryBalloonDeviceConfiguration()]
    let port = VZVirtioConsoleDeviceSerialPortConfiguration()
    port.attachment = VZFileHandleSerialPortAttachment(fileHandleForReading: console, fileHandleForWriting: console)
    serialPorts = [port]
    if vsock { socketDevices = [VZVirtioSocketDeviceConfiguration()] }
  }
}

extension Spec.Disk {
  fileprivate func device() throws -> VZStorageDeviceConfiguration {
    // A guest that syncs finds its bytes after a crash of the host. Always through the host's cache: left to itself, the framework
    // goes around it for some disks, and file systems of Linux guests were damaged by that.
    let attachment = try VZDiskImageStorageDeviceAttachment(
      url: URL(fileURLWithPath: path), readOnly: readOnly, cachingMode: .cached, synchronizationMode: .fsync)
    return VZVirtioBlockDeviceConfiguration(attachment: attachment)
  }
}

extension Spec.Share {
  fileprivate func device() -> VZVirtioFileSystemDeviceConfiguration {
    let device = VZVirtioFileSystemDeviceConfiguration(tag: tag)
    let folder = VZSharedDirectory(url: URL(fileURLWithPath: path, isDirectory: true), readOnly: false)
    device.share = VZSingleDirectoryShare(directory: folder)
    return device
  }
}
