import './common.ts';
