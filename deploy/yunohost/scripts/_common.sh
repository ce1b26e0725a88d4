#!/bin/bash

# Used by ynh_nodejs_install.
# shellcheck disable=SC2034
nodejs_version=26

# Root owns the code, so the service cannot change it.
install_package() {
    ynh_setup_source --dest_dir="$install_dir" --full_replace
    chown -R root:"$app" "$install_dir"
    chmod -R u=rwX,g=rX,o= "$install_dir"
}

add_configuration() {
    ynh_config_add_nginx
    ynh_config_add_systemd
    yunohost service add "$app" --description="Lightning addresses" --log="systemd"
}

start_service() {
    ynh_systemctl --service="$app" --action=start --wait_until="nutpost is listening" --log_path=systemd
}
