import type { Logger } from '../../log.ts';
import { type Branding, type BrandingSettings, loadBranding } from './branding.ts';
import { canLoadBrowserFiles } from './browser-files.ts';

export interface WebSettings extends BrandingSettings {
  /** The relay through which remote signers connect to the account page (NIP-46). */
  signerRelay: string;
}

export interface WebPages extends Pick<WebSettings, 'signerRelay'> {
  branding: Branding;
}

/** Returns null if the operator switched the pages off, or the files for the browser are missing. */
export async function loadWebPages(
  settings: WebSettings | null,
  log: Logger,
): Promise<WebPages | null> {
  if (settings === null) {
    return null;
  }
  if (!canLoadBrowserFiles()) {
    log.warn(
      { event: 'web_pages_missing' },
      'the files of the web pages are missing, so there are no pages; run "npm run build" with the development' +
        ' dependencies, or set WEB_PAGES=false',
    );
    return null;
  }
  return { branding: await loadBranding(settings), signerRelay: settings.signerRelay };
}
