/**
 * Returns what limits for a remote host count: the host of a URL, whatever the port, because one machine
 * answers on all of them. In development, where every mint is on this machine, each port counts by itself.
 */
export function remoteParty(url: URL, options: { allowPrivateNetworks: boolean }): string {
  return options.allowPrivateNetworks ? url.origin : url.hostname.replace(/\.$/, '');
}
