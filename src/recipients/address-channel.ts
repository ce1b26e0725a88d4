/**
 * The channel for Lightning addresses whose recipient, settings or block changed. The operation that writes the change
 * notifies in the same transaction. The payload is one address (`addressesOf`), or {@link ALL_ADDRESSES}.
 */
export const ADDRESS_CHANNEL = 'nutpost_address_changes';

/** The payload of an import, which changes many recipients at once. */
export const ALL_ADDRESSES = '';
