/** The user's settings, from `GET /api/v2/user/info`. */
export interface User {
  /** Hex. */
  pubkey: string;
  name?: string;
  mintUrl: string;
  lockQuote: boolean;
}

export interface UserResponse {
  data: { user: User };
}
