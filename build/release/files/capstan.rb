# SPDX-License-Identifier: Apache-2.0
class Capstan < Formula
  desc "Cluster API, standalone"
  homepage "https://github.com/capstan-dev/capstan"
  version "<<.Version>>".delete_prefix("v")
  license "Apache-2.0"

  BASE = "https://github.com/capstan-dev/capstan/releases/download/<<.Version>>".freeze

  on_macos do
    on_arm do
      url "#{BASE}/capstan_darwin_arm64"
      sha256 "<<index .Sums "capstan_darwin_arm64">>"
    end
    on_intel do
      url "#{BASE}/capstan_darwin_amd64"
      sha256 "<<index .Sums "capstan_darwin_amd64">>"
    end
  end
  on_linux do
    on_arm do
      url "#{BASE}/capstan_linux_arm64"
      sha256 "<<index .Sums "capstan_linux_arm64">>"
    end
    on_intel do
      url "#{BASE}/capstan_linux_amd64"
      sha256 "<<index .Sums "capstan_linux_amd64">>"
    end
  end

  def install
    bin.install Dir["capstan_*"].first => "capstan"
    generate_completions_from_executable(bin/"capstan", "completion")
  end

  def caveats
    "On macOS this is the client: `capstan up` runs on Linux." if OS.mac?
  end

  test do
    system bin/"capstan", "version"
  end
end
