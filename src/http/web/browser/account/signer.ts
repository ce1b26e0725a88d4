/** An event that a signer completes (NIP-01). */
export interface EventTemplate {
  kind: number;
  created_at: number;
  tags: string[][];
  content: string;
}

export interface SignedEvent extends EventTemplate {
  id: string;
  pubkey: string;
  sig: string;
}

/** Signs for the user. The secret key stays with the signer: a browser extension (NIP-07) or a remote signer (NIP-46). */
export interface Signer {
  /** Hex. */
  getPublicKey(): Promise<string>;
  signEvent(template: EventTemplate): Promise<SignedEvent>;
  /** Ends the connection to a remote signer. */
  close?(): Promise<void>;
}
