/** Recipes for package managers that download a release: a Homebrew formula, and a PKGBUILD for Arch Linux. */

/** Where a release is published, and what it has. */
export interface Published {
  name: string
  version: string
  license: string
  /** The address of the folder with its files, without a slash at the end. */
  url: string
  /** The SHA-256 of each file, by its name. */
  sums: Record<string, string>
}

const description = 'Reads, exports, backs up, restores and edits what Firefox Sync stores'

/** The files of a release with these recipes, which install an executable and the manual pages, completions and guides. */
export function packageRecipes(published: Published): Record<string, string> {
  return { [`${published.name}.rb`]: formula(published), PKGBUILD: pkgbuild(published) }
}

/** The name of the executable for a platform in this release; null if it has none. */
function executable({ name, version, sums }: Published, platform: string): string | null {
  const base = `${name}-${version}-${platform}`
  return [`${base}.gz`, base].find((file) => Object.hasOwn(sums, file)) ?? null
}

const shareOf = ({ name, version }: Published) => `${name}-${version}-share.tar.gz`

function formula(published: Published): string {
  const { name, version, license, url, sums } = published
  const systems = { macos: 'darwin', linux: 'linux' }
  const processors = { arm: 'arm64', intel: 'x64' }
  // `brew style` wants one block for each system.
  const sources = Object.entries(systems).flatMap(([system, prefix]) => {
    const blocks = Object.entries(processors).flatMap(([processor, suffix]) => {
      const file = executable(published, `${prefix}-${suffix}`)
      if (file === null) return []
      return `    on_${processor} do
      url "${url}/${file}"
      sha256 "${sums[file]}"
    end
`
    })
    return blocks.length === 0 ? [] : `  on_${system} do\n${blocks.join('')}  end\n\n`
  })
  return `class SyncBridge < Formula
  desc "${description}"
  homepage "${url}"
  version "${version}"
  license "${license}"

${sources.join('')}  resource "share" do
    url "${url}/${shareOf(published)}"
    sha256 "${sums[shareOf(published)]}"
  end

  def install
    bin.install Dir["${name}-*"].first => "${name}"
    resource("share").stage do
      man1.install Dir["man/man1/*"]
      doc.install Dir["doc/${name}/*"]
      bash_completion.install "bash-completion/completions/${name}"
      zsh_completion.install "zsh/site-functions/_${name}"
      fish_completion.install "fish/vendor_completions.d/${name}.fish"
    end
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/${name} version")
  end
end
`
}

function pkgbuild(published: Published): string {
  const { name, version, license, url, sums } = published
  const share = shareOf(published)
  const files = { x86_64: executable(published, 'linux-x64'), aarch64: executable(published, 'linux-arm64') }
  const present = Object.entries(files).filter((entry): entry is [string, string] => entry[1] !== null)
  const sources = present.map(
    ([arch, file]) =>
      `source_${arch}=("${url}/${file}")\nnoextract+=('${file}')\nsha256sums_${arch}=('${sums[file]}')\n`,
  )
  const names = present.map(([arch, file]) => `    ${arch}) file='${file}' ;;\n`)
  return `pkgname=${name}-bin
pkgver=${version}
pkgrel=1
pkgdesc='${description}'
arch=(${present.map(([arch]) => `'${arch}'`).join(' ')})
url='${url}'
license=('${license}')
provides=('${name}')
conflicts=('${name}')
# Stripping removes the program that is appended to the runtime.
options=('!strip')
noextract=('${share}')
source=("${url}/${share}")
sha256sums=('${sums[share]}')
${sources.join('')}
package() {
  local file
  case "$CARCH" in
${names.join('')}  esac
  install -dm755 "$pkgdir/usr/bin"
  # -f copies what is not compressed.
  gzip -dcf "$srcdir/$file" >"$pkgdir/usr/bin/${name}"
  chmod 755 "$pkgdir/usr/bin/${name}"
  install -dm755 "$pkgdir/usr/share"
  tar -xf "$srcdir/${share}" -C "$pkgdir/usr/share"
}
`
}
