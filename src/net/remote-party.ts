/**
 * Who bears what a url makes us do: its host, whatever the port, since one machine answers on all of
 * them. In development, where every mint is on this machine, each port is somebody else.
 *
 * @param options.allowPrivateNetworks development
 */
export function remoteParty(url: URL, options: { allowPrivateNetworks: boolean }): string {
  return options.allowPrivateNetworks ? url.origin : url.hostname.replace(/\.$/, '');
}
