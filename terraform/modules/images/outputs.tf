output "scylla" {
  description = "Image of storage hosts: its id, who logs in, and its first-boot data."
  value = {
    id        = coalesce(var.ids["scylla"], try(data.aws_ami_ids.scylla.ids[0], null))
    user      = "scyllaadm"
    user_data = var.ssm_agent ? local.scylla_setup_with_agent : local.scylla_setup
  }
}

output "debian" {
  description = "Image of all other hosts: its id, who logs in, and its first-boot data (null: none)."
  value = {
    id        = coalesce(var.ids["debian"], try(data.aws_ami_ids.debian.ids[0], null))
    user      = "admin"
    user_data = var.ssm_agent ? local.agent_setup : null
  }
}

output "bastion" {
  description = "Image of the bastion host, which is reached without the agent: as the others'."
  value = {
    id        = coalesce(var.ids["debian"], try(data.aws_ami_ids.debian.ids[0], null))
    user      = "admin"
    user_data = local.bastion_setup
  }
}
